"""Inputs of a model from files: raw binary as a board is fed, ``.npy``, pictures; or random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data import as_fed
from engine.config import InputSpec
from engine.errors import ConfigError, InferenceError
from engine.frontend.colour import to_quantized_input
from engine.frontend.preprocess import saved_inputs
from engine.simulate import Session, TensorInfo
from engine.simulate.tensors import random_feed
from engine.terms import InputType, Layout

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
        raise ConfigError(f"input files {given!r}: expected one per input ({', '.join(names)}), as file or name:file")
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
            array: NDArray[Any] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InferenceError(f"input {info.name}: {path}: cannot be read: {error}") from error
    else:
        kind = np.dtype(info.dtype if spec is None else np.uint8)
        array = np.fromfile(path, kind)
        if array.nbytes != path.stat().st_size:
            raise InferenceError(f"input {info.name}: {path}: its size is no multiple of that of a {kind}")
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
    nhwc = _is_nhwc(info, spec)
    height, width = info.shape[1:3] if nhwc else info.shape[2:4]
    batch = info.shape[0]
    channels = _channels(spec)
    shape: tuple[int, ...] = (batch, height, width, channels)
    if spec.type_rt is InputType.NV12:
        shape = (batch, height * 3 // 2, width)
    elif spec.layout_rt is Layout.NCHW:
        shape = (batch, channels, height, width)
    if array.size != _size(shape):
        raise InferenceError(
            f"input {info.name}: {path} holds {array.size} bytes, expected {_size(shape)}: {spec.type_rt} {shape}"
        )
    return to_quantized_input(array.reshape(shape), spec, Layout.NHWC if nhwc else Layout.NCHW)


def _is_nhwc(info: TensorInfo, spec: InputSpec) -> bool:
    """Whether the channels of an image input come last."""
    channels = _channels(spec)
    return info.shape[3] == channels and (info.shape[1] != channels or spec.layout_train is Layout.NHWC)


def _channels(spec: InputSpec) -> int:
    return 1 if spec.type_rt is InputType.GRAY else 3


def _picture(info: TensorInfo, spec: InputSpec | None, path: Path) -> NDArray[Any]:
    """An image file resized to the input (one for the whole batch), in its run-time format, 128 subtracted."""
    from PIL import Image, UnidentifiedImageError

    if spec is None or spec.type_train is InputType.YUV444:
        raise InferenceError(f"input {info.name} takes no pictures; give a .bin or .npy file, not {path.name}")
    nhwc = _is_nhwc(info, spec)
    height, width = info.shape[1:3] if nhwc else info.shape[2:4]
    try:
        with Image.open(path) as picture:
            mode = "L" if spec.type_train is InputType.GRAY else "RGB"
            pixels = np.asarray(picture.convert(mode).resize((width, height)))
    except (OSError, UnidentifiedImageError) as error:
        raise InferenceError(f"input {info.name}: {path}: cannot be read as an image: {error}") from error
    image = np.broadcast_to(pixels.reshape(1, height, width, -1), (info.shape[0], height, width, _channels(spec)))
    if spec.type_train is InputType.BGR:
        image = image[..., ::-1]
    trained = image if spec.layout_train is Layout.NHWC else np.moveaxis(image, 3, 1)
    fed = as_fed(np.ascontiguousarray(trained), spec)
    if fed.shape[1:] != tuple(info.shape[1:]):
        fed = fed.transpose(0, 2, 3, 1)
    return np.clip(np.rint(fed), -128, 127).astype(info.dtype)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size
