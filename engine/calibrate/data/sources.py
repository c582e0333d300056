"""Calibration data, from arrays or folders, as what the original_float model is fed with.

Files are taken in the order of their sorted names. Every reader gives samples on demand, so that memory does not grow
with their number.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.config import InputSpec
from engine.errors import CalibrationDataError, hint
from engine.frontend.colour import INPUT_OFFSET, calibration_input, in_run_time_order
from engine.ir import shape_of
from engine.terms import InputType, Layout
from engine.untrusted import opened_image, read_npy

if TYPE_CHECKING:
    from PIL.Image import Image

Array = NDArray[Any]
Shape = tuple[int, ...]

RAW_TYPES: Mapping[str, type[np.generic]] = {"float32": np.float32, "uint8": np.uint8}
"""``cal_data_type``: what raw binary files hold."""

FLOAT_SUFFIX = "_f32"
"""Folders of images whose name ends so hold float32 where ``cal_data_type`` does not say otherwise."""


class CalibrationData(ABC):
    """Samples for all inputs of a float model."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of samples."""

    @abstractmethod
    def read(self, start: int, stop: int) -> dict[str, Array]:
        """Samples ``start`` to ``stop`` (exclusive), by input name, joined along the first dimension.

        Raises:
            CalibrationDataError: a file cannot be read as the input that it is for.
        """

    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of everything that determines the samples, hexadecimal."""


def as_data(data: CalibrationData | Mapping[str, Array], batch: int = 1) -> CalibrationData:
    """``data``, arrays by input name wrapped as they are; ``batch``: rows of one sample."""
    return data if isinstance(data, CalibrationData) else ArrayData(data, batch=batch)


class ArrayData(CalibrationData):
    """Samples in memory.

    Args:
        arrays: by input name; samples along the first dimension.
        inputs: the specs of image inputs: their arrays, uint8 or float, hold images in ``type_train`` and
            ``layout_train``, not normalised, and are converted. Other arrays are fed as they are.

        batch: rows of one sample: the first dimension of the model's inputs.

    Raises:
        CalibrationDataError: the arrays hold different numbers of samples, or a part of one.
    """

    def __init__(self, arrays: Mapping[str, Array], inputs: Sequence[InputSpec] = (), batch: int = 1) -> None:
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        self._inputs = {spec.name: spec for spec in inputs}
        lengths = {name: len(array) for name, array in self._arrays.items()}
        if len(set(lengths.values())) > 1:
            raise CalibrationDataError(f"inputs have different numbers of calibration samples: {lengths}")
        rows = next(iter(lengths.values()), 0)
        if rows % batch:
            raise CalibrationDataError(f"the arrays have {rows} rows; a sample of this model has {batch}")
        self._batch = batch
        self._length = rows // batch

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """See :meth:`CalibrationData.read`."""
        rows = slice(start * self._batch, stop * self._batch)
        return {name: as_fed(array[rows], self._inputs.get(name)) for name, array in self._arrays.items()}

    def digest(self) -> str:
        """See :meth:`CalibrationData.digest`."""
        sha = hashlib.sha256()
        for name, array in sorted(self._arrays.items()):
            spec = self._inputs.get(name)
            sha.update(f"{name} {array.dtype} {array.shape} {spec and spec.model_dump_json()}\n".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()


@dataclass(frozen=True)
class InputFolder:
    """The calibration files of one input.

    Attributes:
        spec: the input.
        shape: of one sample, in ``layout_train``.
        files: in order.
        raw_type: of raw binary files: a key of :data:`RAW_TYPES`.
        images: whether the files are images to be read and resized (``preprocess_on``).
        dtype: of the model's input.
    """

    spec: InputSpec
    shape: Shape
    files: tuple[Path, ...]
    raw_type: str
    images: bool
    dtype: np.dtype[Any]

    def feed(self, index: int) -> Array:
        """Sample ``index`` as the input of the original_float model takes it.

        Raises:
            CalibrationDataError: the file cannot be read, or holds values that an integer input does not have.
        """
        sample = as_fed(self.read(index), self.spec)
        with np.errstate(invalid="ignore"):
            fed: Array = sample.astype(self.dtype)
        if self.dtype.kind != "f" and not np.array_equal(fed, sample):
            raise CalibrationDataError(
                f"{self.files[index]}: holds values that are not of type {self.dtype}, the type of "
                f"input {self.spec.name!r}"
            )
        return fed

    def read(self, index: int) -> Array:
        """Sample ``index`` in the type of its file, in ``shape``."""
        file = self.files[index]
        if self.images:
            return image_pixels(file, self.spec, self.shape)
        if file.suffix.lower() == ".npy":
            return shaped(_read_npy(file), self.shape, file)
        return _read_raw(file, self.raw_type, self.shape, self.spec)

    def check_image(self, index: int) -> None:
        """Read the head of an image file.

        Raises:
            CalibrationDataError: it is none.
        """
        with _opened(self.files[index]):
            pass


class FolderData(CalibrationData):
    """Samples in files, one folder per input, paired by the order of the sorted names.

    Args:
        folders: from :func:`open_folders`.

    Raises:
        CalibrationDataError: the folders hold different numbers of files.
    """

    def __init__(self, folders: Sequence[InputFolder]) -> None:
        counts = {str(folder.files[0].parent): len(folder.files) for folder in folders}
        if len(set(counts.values())) > 1:
            raise CalibrationDataError(f"every input needs the same number of calibration files; found {counts}")
        self._folders = tuple(folders)

    def __len__(self) -> int:
        return len(self._folders[0].files) if self._folders else 0

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """See :meth:`CalibrationData.read`."""
        indices = range(start, min(stop, len(self)))
        return {folder.spec.name: np.concatenate([folder.feed(index) for index in indices]) for folder in self._folders}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the samples: of the first input's files, without suffix."""
        return tuple(file.stem for file in self._folders[0].files) if self._folders else ()

    def digest(self) -> str:
        """See :meth:`CalibrationData.digest`."""
        sha = hashlib.sha256()
        for folder in self._folders:
            sha.update(f"{folder.spec.model_dump_json()} {folder.shape} {folder.raw_type} {folder.images}\n".encode())
            for file in folder.files:
                sha.update(f"{file.suffix} {_md5(file)}\n".encode(errors="surrogateescape"))
        return sha.hexdigest()

    @property
    def folders(self) -> tuple[InputFolder, ...]:
        """One per input."""
        return self._folders

    def first_files(self) -> dict[str, str]:
        """The first file of every input and its MD5 sum, as the log of a conversion shows them."""
        return {str(folder.files[0]): _md5(folder.files[0]) for folder in self._folders}


def open_folders(
    model: ir.Model,
    inputs: Sequence[InputSpec],
    folders: Sequence[str | os.PathLike[str]],
    data_types: Sequence[str | None] = (),
    preprocess_on: bool = False,
) -> FolderData:
    """Calibration data in folders, one per input.

    Raw binary files hold what ``data_types`` says; where it is empty, float32 for feature maps and for folders whose
    name ends in ``_f32``, uint8 for other images. ``.npy`` files say themselves what they hold.

    Args:
        model: source or original_float model: it has the shapes.
        inputs: what each input is, in the order of ``folders``.
        folders: one per input.
        data_types: ``float32``, ``uint8`` or ``None`` (not said) per input, or nothing.
        preprocess_on: the folders hold images in files (JPEG, PNG, BMP, ...), which are resized to the input.

    Raises:
        CalibrationDataError: a folder is missing or empty, numbers do not match, an input does not exist or cannot be
            an image.
    """
    if len(folders) != len(inputs):
        raise CalibrationDataError(
            f"Wrong cal_dir num given, cal_dir num {len(folders)} is not equal to input num {len(inputs)}"
        )
    if len(data_types) not in (0, len(inputs)):
        raise CalibrationDataError(
            f"Wrong cal_data_type num given, cal_data_type num {len(data_types)} is not equal to input num "
            f"{len(inputs)}"
        )
    shapes = {str(value.name): shape_of(value) for value in model.graph.inputs}
    types = {str(value.name): value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
    opened = []
    for index, (spec, folder) in enumerate(zip(inputs, folders, strict=True)):
        if spec.name not in shapes:
            raise CalibrationDataError(
                f"calibration data for {spec.name!r}: the model's inputs are {sorted(shapes)}{hint(spec.name, shapes)}"
            )
        if preprocess_on and not spec.is_image:
            raise CalibrationDataError(f"input {spec.name!r} is a feature map: preprocess_on needs image inputs")
        path = Path(folder)
        raw_type = (data_types[index] if data_types else None) or default_raw_type(spec, path)
        if raw_type not in RAW_TYPES:
            raise CalibrationDataError(
                f"cal_data_type {raw_type!r}: allowed are {sorted(RAW_TYPES)}{hint(raw_type, RAW_TYPES)}"
            )
        shape, kind = shapes[spec.name], types[spec.name]
        if preprocess_on and shape[0] != 1:
            raise CalibrationDataError(
                f"input {spec.name!r} takes {shape[0]} images at once, shape {shape}: preprocess_on reads one image "
                "per file; give samples of that shape without it"
            )
        opened.append(InputFolder(spec, shape, _list_files(path), raw_type, preprocess_on, kind))
    return FolderData(opened)


def default_raw_type(spec: InputSpec, folder: Path) -> str:
    """Type of raw binary files where ``cal_data_type`` is not given."""
    return "float32" if not spec.is_image or folder.name.endswith(FLOAT_SUFFIX) else "uint8"


def as_fed(samples: Array, spec: InputSpec | None) -> Array:
    """Samples in the format that the network was trained on, as the input of the original_float model.

    Args:
        samples: shape (N, ...). Images: uint8 or float in ``type_train`` and ``layout_train``, not normalised.
        spec: the input; ``None`` for a feature map.

    Returns:
        Images: float32 minus 128 in the colours of ``type_rt``. Other samples as they are, numbers of any width as
        float32 if they are not integers.
    """
    with np.errstate(over="ignore"):  # beyond float32: infinite, which is reported
        samples = samples.astype(np.float32) if samples.dtype.kind == "f" else samples
    if spec is None or not spec.is_image:
        return samples
    return calibration_input(_channels_last(samples, spec), spec)


def bytes_as_fed(samples: Array, spec: InputSpec) -> Array | None:
    """What :func:`as_fed` gives, as int8; None where those are not all whole numbers from -128 to 127.

    They are where images are uint8 and their colours are not computed.
    """
    if not spec.is_image or samples.dtype != np.uint8:
        return None
    ordered = in_run_time_order(_channels_last(samples, spec), spec)
    if ordered is None:
        return None
    fed: Array = (np.ascontiguousarray(ordered) ^ np.uint8(INPUT_OFFSET)).view(np.int8)
    return fed if spec.layout_train is Layout.NHWC else fed.transpose(0, 3, 1, 2)


def _channels_last(samples: Array, spec: InputSpec) -> Array:
    return samples if spec.layout_train is Layout.NHWC else samples.transpose(0, 2, 3, 1)


def _list_files(folder: Path) -> tuple[Path, ...]:
    """The files of ``folder`` in the order of their names; hidden ones and folders in it do not count."""
    try:
        seen = [path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in _OF_WINDOWS]
    except FileNotFoundError:
        raise CalibrationDataError(
            f"Cal_data_dir does not exist: {folder}; to make it from images: ptqlab prepare IMAGES --config CONFIG.yaml"
        ) from None
    except NotADirectoryError:
        raise CalibrationDataError(f"Cal_data_dir is not a directory: {folder}") from None
    except OSError as error:
        raise CalibrationDataError(f"Cal_data_dir cannot be read: {folder} ({error.strerror})") from error
    files = tuple(sorted(path for path in seen if not os.path.isdir(path)))
    if not files:
        inner = f": it holds {len(seen)} directories and no file, and subdirectories are not searched" if seen else ""
        raise CalibrationDataError(f"Directory {folder} is empty, please check calibration pics{inner}")
    for path in files:
        if not os.path.isfile(path):
            raise CalibrationDataError(f"{path}: not a readable file, or a broken link")
    return files


_OF_WINDOWS = frozenset({"Thumbs.db", "desktop.ini"})
"""Files that Windows writes into folders of images."""


def _read_raw(file: Path, raw_type: str, shape: Shape, spec: InputSpec) -> Array:
    dtype = np.dtype(RAW_TYPES[raw_type])
    wanted = prod(shape) * dtype.itemsize
    try:
        with file.open("rb") as stream:
            content = stream.read(wanted + 1)
        size = file.stat().st_size
    except OSError as error:
        raise CalibrationDataError(f"{file}: cannot be read ({error})") from error
    if len(content) != wanted:
        if file.suffix.lower() in (".jpg", ".jpeg", ".png", ".bmp"):
            raise CalibrationDataError(
                f"{file}: is an image; calibration samples are raw binary or .npy files of shape {shape} unless "
                "preprocess_on is True"
            )
        if file.suffix.lower() == ".npz":
            raise CalibrationDataError(f"{file}: is an archive of arrays; write every array by itself, with numpy.save")
        if spec.is_image and size == prod(shape) // 2:
            raise CalibrationDataError(
                f"{file}: has the {size} bytes of an NV12 image, but calibration data have the format that the network "
                f"was trained on (input_type_train {spec.type_train.value}), whatever input_type_rt is: write "
                f"{prod(shape)} values of shape {shape}"
            )
        values, rest = divmod(size, dtype.itemsize)
        raise CalibrationDataError(
            f"{file}: cannot reshape array of size {values} into shape {shape}: expected are {prod(shape)} values for "
            f"shape {shape}, the file holds {values}{f' and {rest} bytes' if rest else ''} of type {raw_type}; is "
            "cal_data_type right?"
        )
    return np.frombuffer(content, dtype).reshape(shape)


def _read_npy(file: Path) -> Array:
    try:
        return read_npy(file)
    except ValueError as error:
        raise CalibrationDataError(f"{file}: {error}") from error


def shaped(array: Array, shape: Shape, file: Path) -> Array:
    """``array`` in ``shape``; one sample without dimensions of 1, or without any shape, is fine.

    Raises:
        CalibrationDataError: it has another shape, perhaps other axes; ``file`` is named.
    """
    if array.shape == (prod(shape),) or _without_ones(array.shape) == _without_ones(shape):
        return array.reshape(shape)
    raise CalibrationDataError(
        f"{file}: cannot reshape array of size {array.size} into shape {shape}: expected is an array of that shape, "
        f"the file's has the shape {array.shape}{_other_layout(array.shape, shape)}"
    )


def _other_layout(found: Shape, wanted: Shape) -> str:
    """How an array whose channels are at the other end gets the shape ``wanted``; empty for any other."""
    if len(found) not in (len(wanted), len(wanted) - 1) or len(found) < 3:
        return ""
    first = len(found) - 3
    for axes in ((first + 2, first, first + 1), (first + 1, first + 2, first)):
        order = (*range(first), *axes)
        if _without_ones(tuple(found[axis] for axis in order)) == _without_ones(wanted):
            return f": it has its channels at the other end; write numpy.transpose(array, {order})"
    return ""


def _without_ones(shape: Shape) -> Shape:
    return tuple(dim for dim in shape if dim != 1)


def image_pixels(file: Path, spec: InputSpec, shape: Shape) -> NDArray[np.uint8]:
    """An image file, resized to the input, in ``type_train`` and ``layout_train``, shape ``shape``.

    Raises:
        CalibrationDataError: it is no image.
    """
    nchw = spec.layout_train is Layout.NCHW
    height, width = shape[2:4] if nchw else shape[1:3]
    mode = {InputType.GRAY: "L", InputType.YUV444: "YCbCr"}.get(spec.type_train, "RGB")
    with _opened(file) as image:
        pixels = np.atleast_3d(np.asarray(_eight_bits(image).convert(mode)))
    pixels = _resized(pixels, height, width)
    if spec.type_train is InputType.BGR:
        pixels = pixels[..., ::-1]
    return np.ascontiguousarray((pixels.transpose(2, 0, 1) if nchw else pixels)[np.newaxis])


def _resized(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """``pixels``, (height, width, channels), in another size: bilinear between centres of pixels, without smoothing.

    What ``skimage.transform.resize`` computes with ``order=1, anti_aliasing=False``, rounded to whole levels.
    """
    from scipy.ndimage import zoom  # slow to import, and seldom needed

    if pixels.shape[:2] == (height, width):
        return pixels
    factors = (height / pixels.shape[0], width / pixels.shape[1], 1.0)
    found = zoom(pixels.astype(np.float32), factors, order=1, mode="mirror", grid_mode=True)
    resized: NDArray[np.uint8] = np.rint(found).astype(np.uint8)
    return resized


def _eight_bits(image: Image) -> Image:
    """``image``, of 16 bits per pixel the upper 8.

    Raises:
        ValueError: its pixels are not integers of 8 or 16 bits, so that nothing says which of them is white.
    """
    from PIL.Image import fromarray

    if image.mode.startswith("I;16"):
        return fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"its pixels are of mode {image.mode}; 8 or 16 bits are expected")
    return image


@contextmanager
def _opened(file: Path) -> Iterator[Image]:
    """An image file; what it turns out not to be within the context is an error that names it."""
    try:
        with opened_image(file) as image:
            yield image
    except ValueError as error:
        raise CalibrationDataError(f"{file}: {error}; preprocess_on expects image files") from error


def _md5(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
