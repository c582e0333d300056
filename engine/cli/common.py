"""What the board-side commands share: the version option, loading of inputs, random inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from engine.errors import ConfigError, InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.simulate import Session, TensorInfo

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")


class Truth(StrEnum):
    """Value of a switch that is written out, as ``-s True``, ``--enable_dump 1``."""

    TRUE = "true"
    FALSE = "false"
    ONE = "1"
    ZERO = "0"

    def __bool__(self) -> bool:
        return self in (Truth.TRUE, Truth.ONE)


def version_option(command: str) -> Any:
    """The option ``--version`` of ``command``."""

    def show(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{command}, version {version('ptqlab')}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")


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
    import numpy as np

    if given is None:
        from engine.simulate.tensors import random_feed

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
    import numpy as np

    if not path.is_file():
        raise InferenceError(f"input {info.name}: {path}: no such file")
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return _image(session, info, path)
    if path.suffix == ".npy":
        try:
            array: NDArray[Any] = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InferenceError(f"input {info.name}: {path}: cannot be read: {error}") from error
    else:
        array = _raw(info, path)
    if array.size != _size(info.shape):
        raise InferenceError(f"input {info.name}: {path} holds {array.size} values, expected {_size(info.shape)}")
    return array.reshape(info.shape).astype(info.dtype)


def _raw(info: TensorInfo, path: Path) -> NDArray[Any]:
    """Raw binary: the input's own type, or uint8 for an int8 image (128 is subtracted)."""
    import numpy as np

    data = path.read_bytes()
    wanted = _size(info.shape) * np.dtype(info.dtype).itemsize
    if len(data) != wanted:
        raise InferenceError(f"input {info.name}: {path} has {len(data)} bytes, expected {wanted} for {info.shape}")
    return np.frombuffer(data, info.dtype)


def _image(session: Session, info: TensorInfo, path: Path) -> NDArray[Any]:
    """An image file resized to the input and brought into its run-time format, minus 128."""
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    from engine.calibrate.data import as_fed
    from engine.frontend.preprocess import saved_inputs

    spec = next((spec for spec in saved_inputs(session.model) if spec.name == info.name and spec.is_image), None)
    if spec is None:
        raise InferenceError(f"input {info.name} is a feature map; give a .bin or .npy file, not {path.name}")
    height, width = _picture_size(info.shape)
    try:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.convert("L" if spec.type_train == "gray" else "RGB").resize((width, height)))
    except (OSError, UnidentifiedImageError) as error:
        raise InferenceError(f"input {info.name}: {path}: cannot be read as an image: {error}") from error
    image = pixels.reshape(1, height, width, -1)
    if spec.type_train == "bgr":
        image = image[..., ::-1]
    trained = image if spec.layout_train == "NHWC" else np.moveaxis(image, 3, 1)
    fed = as_fed(np.ascontiguousarray(trained), spec)
    if fed.shape[1:] != tuple(info.shape[1:]):
        fed = fed.transpose(0, 2, 3, 1)
    return np.clip(np.rint(fed), -128, 127).astype(info.dtype)


def _picture_size(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of an image tensor of either layout."""
    return (shape[1], shape[2]) if shape[3] in (1, 3) else (shape[2], shape[3])


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dim in shape:
        size *= dim
    return size
