"""Inputs of a model from files: raw binary as a board is fed, ``.npy``, pictures; or random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import InputFolder, as_fed
from engine.config import InputSpec
from engine.errors import CalibrationDataError, ConfigError, InferenceError, hint
from engine.frontend.colour import to_quantized_input
from engine.frontend.preprocess import saved_inputs
from engine.simulate import Session, TensorInfo
from engine.simulate.session import image_inputs
from engine.simulate.tensors import random_feed
from engine.terms import InputType, Layout
from engine.untrusted import opened_image, read_npy

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")


def read_inputs(session: Session, given: str | None) -> dict[str, NDArray[Any]]:
    """Inputs of a session as its model takes them.

    Args:
        session: of the model.
        given: files joined by commas, in the order of the inputs or as ``name:file``: raw binary (``.bin``), ``.npy``,
            or an image (resized to the input, colours as the model takes them); ``None`` for random data.

    Raises:
        ConfigError: the number of files or a name does not fit.
        InferenceError: a file does not fit its input.
    """
    if given is None:
        return random_feed(session.inputs, 1)
    files = _by_input([info.name for info in session.inputs], given)
    return {info.name: np.ascontiguousarray(read_input(session, info, files[info.name])) for info in session.inputs}


def _by_input(names: Sequence[str], given: str) -> Mapping[str, Path]:
    parts = [part.strip() for part in given.split(",")]
    named = [part.partition(":") for part in parts]
    if all(middle and name in names for name, middle, _ in named):
        found = {name: Path(file) for name, _, file in named}
    elif len(parts) == len(names):
        found = dict(zip(names, map(Path, parts), strict=True))
    else:
        wrong = [name for name, middle, _ in named if middle and name not in names]
        near = hint(wrong[0], names) if wrong else ""
        raise ConfigError(
            f"input files {given!r}: expected one per input ({', '.join(names)}), as file or name:file{near}"
        )
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigError(f"input files {given!r}: none for {', '.join(missing)}")
    return found


def read_input(session: Session, info: TensorInfo, path: Path) -> NDArray[Any]:
    """One input from a file.

    Raises:
        InferenceError: the file is missing, or its size or kind does not fit.
    """
    if not path.is_file():
        raise InferenceError(f"input {info.name}: {path}: no such file")
    spec = next((spec for spec in saved_inputs(session.model) if spec.name == info.name and spec.is_image), None)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return _picture(info, spec, path)
    if path.suffix == ".npy":
        try:
            array: NDArray[Any] = read_npy(path)
        except ValueError as error:
            raise InferenceError(f"input {info.name}: {path}: cannot be read: {error}") from error
    else:
        kind = np.dtype(info.dtype if spec is None else np.uint8)
        array = np.fromfile(path, kind)
        if array.nbytes != path.stat().st_size:
            raise InferenceError(f"input {info.name}: {path}: its size is not a multiple of the size of {kind}")
    if spec is not None and array.dtype == np.uint8:
        return _pixels(info, spec, array, path)
    if array.size != _size(info.shape) or array.dtype != info.dtype:
        raise InferenceError(
            f"input {info.name}: {path} holds {array.size} values of {array.dtype}, expected {_size(info.shape)} of "
            f"{info.dtype}"
        )
    return array.reshape(info.shape)


def _pixels(info: TensorInfo, spec: InputSpec, array: NDArray[np.uint8], path: Path) -> NDArray[Any]:
    """What a camera delivers, uint8 in the run-time format, as the quantised model takes it: int8, 128 subtracted."""
    shape = run_time_shape(info.shape, spec)
    if array.size != _size(shape):
        raise InferenceError(
            f"input {info.name}: {path} holds {array.size} bytes, expected {_size(shape)}: {spec.type_rt} {shape}"
        )
    return to_quantized_input(array.reshape(shape), spec, layout_of(info, spec))


def run_time_shape(shape: tuple[int, ...], spec: InputSpec) -> tuple[int, ...]:
    """Shape of the uint8 that a camera delivers for an image input; of NV12 (batch, rows of Y and of UV, width).

    Args:
        shape: of the input of the quantised model.
        spec: of the input.
    """
    channels = _channels(spec)
    height, width = shape[1:3] if _ends_with_channels(shape, spec) else shape[2:4]
    if spec.type_rt is InputType.NV12:
        return (shape[0], height * 3 // 2, width)
    if spec.layout_rt is Layout.NCHW:
        return (shape[0], channels, height, width)
    return (shape[0], height, width, channels)


def layout_of(info: TensorInfo, spec: InputSpec) -> Layout:
    """Layout of an image input, by its shape; that of the training where both fit."""
    return Layout.NHWC if _is_nhwc(info, spec) else Layout.NCHW


def _is_nhwc(info: TensorInfo, spec: InputSpec) -> bool:
    """Whether the channels of an image input come last."""
    return _ends_with_channels(info.shape, spec)


def _ends_with_channels(shape: tuple[int, ...], spec: InputSpec) -> bool:
    channels = _channels(spec)
    return shape[3] == channels and (shape[1] != channels or spec.layout_train is Layout.NHWC)


def _channels(spec: InputSpec) -> int:
    return 1 if spec.type_rt is InputType.GRAY else 3


def _picture(info: TensorInfo, spec: InputSpec | None, path: Path) -> NDArray[Any]:
    """An image file resized to the input (one for the whole batch), in its run-time format, 128 subtracted."""
    if spec is None or spec.type_train is InputType.YUV444:
        raise InferenceError(f"input {info.name} is not an image input; give a .bin or .npy file, not {path.name}")
    nhwc = _is_nhwc(info, spec)
    height, width = info.shape[1:3] if nhwc else info.shape[2:4]
    try:
        with opened_image(path) as picture:
            mode = "L" if spec.type_train is InputType.GRAY else "RGB"
            pixels = np.asarray(picture.convert(mode).resize((width, height)))
    except ValueError as error:
        raise InferenceError(f"input {info.name}: {path}: {error}") from error
    image = np.broadcast_to(pixels.reshape(1, height, width, -1), (info.shape[0], height, width, _channels(spec)))
    if spec.type_train is InputType.BGR:
        image = image[..., ::-1]
    trained = image if spec.layout_train is Layout.NHWC else np.moveaxis(image, 3, 1)
    return _as_model_takes(info, spec, np.ascontiguousarray(trained), nhwc)


def read_trained(session: Session, info: TensorInfo, spec: InputSpec, path: Path, raw_type: str) -> NDArray[Any]:
    """One input from a file like those for calibration: format, layout and values that the network was trained on.

    Args:
        session: of a model of a conversion.
        info: the input.
        spec: what the configuration says of it.
        path: raw binary of ``raw_type``, ``.npy``, or an image.
        raw_type: ``float32`` or ``uint8``.

    Raises:
        InferenceError: the file is missing or does not fit, or the model does not take the run-time format.
    """
    if not path.is_file():
        raise InferenceError(f"input {info.name}: {path}: no such file")
    if spec.is_image and info.name not in image_inputs(session.model):
        raise InferenceError(
            f"input {info.name} is not an image of {spec.type_train} (input_type_train); give a model of the conversion"
        )
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return _picture(info, spec if spec.is_image else None, path)
    nhwc = spec.is_image and _is_nhwc(info, spec)
    shape = info.shape
    if spec.is_image and nhwc is not (spec.layout_train is Layout.NHWC):
        batch, first, second, third = shape
        shape = (batch, third, first, second) if nhwc else (batch, second, third, first)
    try:
        array = InputFolder(spec, shape, (path,), raw_type, images=False, dtype=info.dtype).read(0)
    except CalibrationDataError as error:
        raise InferenceError(f"input {info.name}: {error}") from error
    if spec.is_image:
        return _as_model_takes(info, spec, array, nhwc)
    if array.dtype.kind != info.dtype.kind:
        raise InferenceError(f"input {info.name}: {path} holds {array.dtype}, the model takes {info.dtype}")
    return array.astype(info.dtype)


def trained_as_fed(session: Session, info: TensorInfo, spec: InputSpec, images: NDArray[Any]) -> NDArray[Any]:
    """Images as the network was trained on, before its normalisation, as an input of a model of any stage.

    Args:
        session: of the model: of a conversion, or the float model that was converted.
        info: the input.
        spec: what the configuration says of it.
        images: shape (N, ...), 0..255, in ``type_train`` and ``layout_train``.
    """
    if info.name in image_inputs(session.model):
        return _as_model_takes(info, spec, images, _is_nhwc(info, spec))
    channels = (-1, 1, 1) if spec.layout_train is Layout.NCHW else (-1,)
    mean = np.asarray(spec.mean or (0.0,), np.float32).reshape(channels)
    scale = np.asarray(spec.scale or (1.0,), np.float32).reshape(channels)
    return np.ascontiguousarray((images - mean) * scale, info.dtype)


def _as_model_takes(info: TensorInfo, spec: InputSpec, images: NDArray[Any], nhwc: bool) -> NDArray[Any]:
    """Images as the network was trained on, in the run-time format of the model's input, 128 subtracted.

    Quantised models take int8: values are rounded half to even and saturated.
    """
    fed = as_fed(images, spec)
    if nhwc is not (spec.layout_train is Layout.NHWC):
        fed = np.moveaxis(fed, 1, 3) if nhwc else np.moveaxis(fed, 3, 1)
    if info.dtype == np.int8:
        fed = np.clip(np.rint(fed), -128, 127)
    return np.ascontiguousarray(fed, info.dtype)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size
