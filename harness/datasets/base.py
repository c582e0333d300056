"""What a data set offers: splits of samples (images, arrays) and targets, and a digest of all that determines them."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from engine.errors import CalibrationDataError
from harness.files.strict_yaml import StrictModel, unknown
from harness.files.user_code import running_own

_SHORT, _LONGEST_TEXT = 12, 100
"""Hexadecimal digits of a short digest, and the longest option that is kept as text."""

NO_LABEL = -1
"""Class of an image that has none."""

Images = NDArray[np.uint8]
"""uint8, shape (images, height, width, channels), channels in the order of the data set's :class:`Colour`."""

KEPT_BYTES = 128 << 20
"""Bytes of images that a split keeps."""

IMAGE = "image"
"""The only part of a sample that is an image and nothing else."""

Samples = Mapping[str, NDArray[Any]]
"""Parts of samples by name, samples along the first dimension: :data:`Images`, or arrays of an :class:`ArrayFormat`."""


class Colour(StrEnum):
    """Meaning of the channels of an image."""

    GRAY = "gray"
    RGB = "rgb"

    @property
    def channels(self) -> int:
        """Number of channels."""
        return 1 if self is Colour.GRAY else 3


class ImageFormat(StrictModel):
    """Size in pixels and colour of every image of a data set."""

    height: int = Field(ge=1)
    width: int = Field(ge=1)
    colour: Colour

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return (self.height, self.width, self.colour.channels)


class ArrayFormat(StrictModel):
    """A part of every sample that is no image.

    Attributes:
        shape: of one sample, without the dimension that counts samples.
        dtype: of its values.
    """

    shape: tuple[PositiveInt, ...]
    dtype: Literal["float32", "int32", "int64"] = "float32"


PartFormat = ImageFormat | ArrayFormat
"""What one part of every sample is."""


@dataclass(frozen=True)
class SceneTarget:
    """What is to be seen on one image of a detection and segmentation data set.

    Attributes:
        boxes: float32, shape (objects, 4): left, top, right, bottom in pixels; right and bottom are exclusive.
        classes: int64, shape (objects,): 0 .. number of classes - 1.
        mask: uint8, shape (height, width): 0 where the background is, else class + 1; the class itself of data sets
            whose labels are masks, where 255 is not counted.
    """

    boxes: NDArray[np.float32]
    classes: NDArray[np.int64]
    mask: NDArray[np.uint8]


Targets = NDArray[np.int64] | NDArray[np.float32] | Sequence[SceneTarget] | Sequence[str]
"""Class per sample, int64, shape (samples,); values per sample, float32, shape (samples, values); or one
:class:`SceneTarget`, or one text, per sample."""


class Split(ABC):
    """A part of a data set in fixed order; what an index gives does not depend on how the range is cut into batches."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self._count = count

    def __len__(self) -> int:
        """Number of images."""
        return self._count

    def images(self, start: int = 0, stop: int | None = None) -> Images:
        """Images ``start`` .. ``stop - 1``.

        Raises:
            CalibrationDataError: the range leaves the split, or a file of it cannot be read.
            ConfigError: an adapter of the user's own raised something else.
        """
        with self._reading():
            return self._images(self._range(start, stop))

    def take(self, start: int = 0, stop: int | None = None) -> Samples:
        """All parts of samples ``start`` .. ``stop - 1``; raises as :meth:`images`."""
        with self._reading():
            return self._parts(self._range(start, stop))

    def targets(self, start: int = 0, stop: int | None = None) -> Targets:
        """Targets of images ``start`` .. ``stop - 1``; raises as :meth:`images`."""
        with self._reading():
            return self._targets(self._range(start, stop))

    def file_of(self, index: int) -> Path | None:
        """The file of sample ``index``, of several parts that of the first; None where it has no file of its own."""
        return None

    def _reading(self) -> AbstractContextManager[None]:
        module, name = type(self).__module__, type(self).__qualname__
        is_own = module.partition(".")[0] != __name__.partition(".")[0]
        return running_own(f"{module}:{name}", "dataset adapter") if is_own else nullcontext()

    @abstractmethod
    def _images(self, indices: range) -> Images: ...

    def _parts(self, indices: range) -> Samples:
        return {IMAGE: self._images(indices)}

    @abstractmethod
    def _targets(self, indices: range) -> Targets: ...

    def _range(self, start: int, stop: int | None) -> range:
        last = len(self) if stop is None else stop
        if not 0 <= start <= last <= len(self):
            raise CalibrationDataError(
                f"split {self.name!r}: images {start}..{last} requested, but it holds 0..{len(self)} (end excluded)"
            )
        return range(start, last)


class KeptImages:
    """Images of a split as they were read, the first that fit into :data:`KEPT_BYTES`.

    What a process does with a data set reads the same images again and again.
    """

    def __init__(self) -> None:
        self._found: dict[int, Images] = {}
        self._left = KEPT_BYTES

    def get(self, index: int, read: Callable[[], Images]) -> Images:
        """Image ``index``: kept, or what ``read`` gives."""
        if index in self._found:
            return self._found[index]
        image = read()
        if image.nbytes <= self._left:
            self._left -= image.nbytes
            self._found[index] = image
        return image


class ArraySplit(Split):
    """Images and classes that are in memory.

    Attributes:
        pixels: all images of the split.
        classes: int64, shape (images,).
    """

    def __init__(self, name: str, pixels: Images, classes: NDArray[np.int64]) -> None:
        super().__init__(name, len(pixels))
        self.pixels, self.classes = pixels, classes

    def _images(self, indices: range) -> Images:
        return self.pixels[indices.start : indices.stop]

    def _targets(self, indices: range) -> Targets:
        return self.classes[indices.start : indices.stop]


class Dataset(ABC):
    """An opened data set.

    Attributes:
        Options: the adapter's options, a pydantic model.
        version: changes whenever the same options give other images or targets.
        image_format: size and colour of every image.
        digest: SHA-256, hexadecimal, of everything that determines images and targets: adapter, its version, options,
            source data and the assignment to splits.
        determinants: what the digest is made of, by name: options as text, data as short digests.
    """

    Options: ClassVar[type[StrictModel]]
    version: ClassVar[int]
    image_format: ImageFormat
    digest: str
    determinants: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Open the data set with options of type :attr:`Options`."""

    @property
    def parts(self) -> Mapping[str, PartFormat]:
        """What every sample is made of, by name."""
        return {IMAGE: self.image_format}

    @property
    @abstractmethod
    def splits(self) -> Mapping[str, Split]:
        """Disjoint splits by name: ``train`` (where there is one), ``calibration``, ``evaluation``."""

    def split(self, name: str) -> Split:
        """The split called ``name``.

        Raises:
            ConfigError: there is no such split; names the nearest.
        """
        if name not in self.splits:
            raise unknown("split", name, self.splits)
        return self.splits[name]

    def _digest(self, options: StrictModel, determinants: Mapping[str, Any]) -> str:
        content = {
            "adapter": type(self).__name__,
            "version": self.version,
            "options": options.model_dump(mode="json"),
            **determinants,
        }
        self.determinants = {
            "adapter": type(self).__name__,
            "version": str(self.version),
            **{f"options.{name}": _as_text(value) for name, value in content["options"].items()},
            **{name: value for key, found in determinants.items() for name, value in _named(key, found)},
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class SplitDataset(Dataset):
    """A data set whose splits are made when it is opened: the constructor sets ``_splits``."""

    _splits: Mapping[str, Split]

    @property
    def splits(self) -> Mapping[str, Split]:
        return MappingProxyType(dict(self._splits))


def picture_of(samples: Samples, parts: Mapping[str, PartFormat]) -> Images | None:
    """The first part of ``samples`` that is an image; None where none is."""
    return next((samples[name] for name, part in parts.items() if isinstance(part, ImageFormat)), None)


def one_by_one(inputs: Samples) -> Iterator[dict[str, NDArray[Any]]]:
    """Inputs of several samples as those of one after the other, each with a first dimension of 1."""
    for index in range(len(next(iter(inputs.values())))):
        yield {name: values[index : index + 1] for name, values in inputs.items()}


def stacked(images: Iterable[Images], count: int, image_format: ImageFormat) -> Images:
    """``count`` images, each (height, width, channels), concatenated; there may be none."""
    result = np.empty((count, *image_format.shape), np.uint8)
    for position, image in enumerate(images):
        result[position] = image
    return result


def _named(key: str, found: Any) -> Iterator[tuple[str, str]]:
    """Short digests of a determinant, one per split where it is listed by split."""
    parts = found.items() if isinstance(found, Mapping) else [("", found)]
    for name, value in parts:
        text = json.dumps(value, sort_keys=True)
        yield f"{key}.{name}".rstrip("."), hashlib.sha256(text.encode()).hexdigest()[:_SHORT]


def _as_text(value: Any) -> str:
    """An option as JSON, or its digest where that is long."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST_TEXT else hashlib.sha256(text.encode()).hexdigest()[:_SHORT]


def sha256_of(*arrays: NDArray[Any]) -> str:
    """Digest of shapes, types and (little-endian) values."""
    state = hashlib.sha256()
    for array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        state.update(f"{little.dtype.str}{little.shape}".encode())
        state.update(np.ascontiguousarray(little).tobytes())
    return state.hexdigest()
