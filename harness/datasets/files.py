"""Data sets of the user's own files: folders of images per class, arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from engine.errors import CalibrationDataError
from engine.untrusted import read_npy
from harness.datasets.base import (
    NO_LABEL,
    Colour,
    ImageFormat,
    Images,
    KeptImages,
    Split,
    SplitDataset,
    Targets,
    stacked,
)
from harness.datasets.labelled_folder import LabelledFile, classes_of, fingerprint, read_labels
from harness.datasets.transformers import Scale, apply, parse_chain, read_image, reversed_colours, to_uint8
from harness.files import paths
from harness.files.strict_yaml import StrictModel
from harness.terms import ReadMode

_IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp"})


class FolderOptions(StrictModel):
    """Where the files are.

    Attributes:
        folder: absolute, or relative to the folder of external data (``PTQLAB_DATA``).
        folders: sub-folder by split.
    """

    folder: Path
    folders: Mapping[str, str] = Field(min_length=1)

    @property
    def root(self) -> Path:
        """The folder.

        Raises:
            CalibrationDataError: it is missing.
        """
        root = paths.external_data(self.folder)
        if not root.is_dir():
            raise CalibrationDataError(f"no folder {root}: unpack the data set there, or set PTQLAB_DATA")
        return root


class ImageOptions(FolderOptions):
    """How image files are read.

    Attributes:
        read_mode: what reads and resizes.
        height, width: in pixels, of every image at the end.
    """

    read_mode: ReadMode = ReadMode.OPENCV
    height: int = Field(ge=1)
    width: int = Field(ge=1)


class ImageFolderOptions(ImageOptions):
    """As :class:`ImageOptions`, and the steps.

    Attributes:
        transformers: steps between the file and the image, see :mod:`harness.datasets.transformers`; sizes only, for
            cards say what colours and layout a model wants.
    """

    transformers: tuple[Any, ...] = ()

    @field_validator("transformers")
    @classmethod
    def _steps_are_known(cls, steps: tuple[Any, ...]) -> tuple[Any, ...]:
        parse_chain(steps)
        return steps


class FileSplit(Split):
    """Samples whose images are read when they are asked for."""

    def __init__(self, name: str, samples: Sequence[LabelledFile], image_format: ImageFormat) -> None:
        super().__init__(name, len(samples))
        self.samples, self._format = samples, image_format
        self._kept = KeptImages()

    @abstractmethod
    def read(self, path: Path) -> NDArray[np.uint8]:
        """One image, uint8, (height, width, channels)."""

    def file_of(self, index: int) -> Path:
        """The image."""
        return self.samples[index].path

    def _images(self, indices: range) -> Images:
        images = (self._kept.get(at, partial(self._checked, self.samples[at].path)) for at in indices)
        return stacked(images, len(indices), self._format)

    def _checked(self, path: Path) -> NDArray[np.uint8]:
        image = self.read(path)
        if image.shape != self._format.shape:
            raise CalibrationDataError(f"{path}: has shape {image.shape}, expected {self._format.shape}")
        return image

    def _targets(self, indices: range) -> Targets:
        return classes_of([self.samples[index] for index in indices])


class _PictureSplit(FileSplit):
    def __init__(self, name: str, samples: Sequence[LabelledFile], options: ImageFolderOptions) -> None:
        super().__init__(name, samples, rgb(options))
        self._mode, self._chain = options.read_mode, parse_chain(options.transformers)

    def read(self, path: Path) -> NDArray[np.uint8]:
        return as_rgb(apply(self._chain, read_image(path, self._mode), self._mode), self._mode)


class ImageFolder(SplitDataset):
    """ImageNet-style: a sub-folder per class in every split; classes are numbered in the order of their names.

    A split whose images lie in its folder itself has no labels: it serves calibration, and evaluation against what the
    float model says (``metric: {labels: float}`` in a model card).
    """

    Options = ImageFolderOptions
    version = 1

    def __init__(self, options: ImageFolderOptions) -> None:
        root = options.root
        listed = {name: _classes_of(root / folder) for name, folder in options.folders.items()}
        classes = sorted({label for samples in listed.values() for _, label in samples if label})
        number = {"": NO_LABEL} | {label: index for index, label in enumerate(classes)}
        samples = {name: [LabelledFile(path, number[label]) for path, label in found] for name, found in listed.items()}
        self.image_format = rgb(options)
        self._splits = {name: _PictureSplit(name, found, options) for name, found in samples.items()}
        self.digest = self._digest(portable(options), {"classes": classes, "files": fingerprints(samples)})


class ArrayLayout(StrEnum):
    """Order of the dimensions of an array in a file."""

    HWC = "HWC"
    CHW = "CHW"


class ArrayFolderOptions(FolderOptions):
    """As :class:`FolderOptions`, and what the files hold.

    Attributes:
        height, width, colour: of every image.
        layout: of every array; ``.npy`` files may have a first dimension of 1 before it.
        classes: number of classes; labels are 0 .. classes - 1.
    """

    height: int = Field(ge=1)
    width: int = Field(ge=1)
    colour: Colour = Colour.RGB
    layout: ArrayLayout = ArrayLayout.CHW
    classes: int = Field(ge=2)


class ArrayFolder(SplitDataset):
    """Folders of ``.npy`` or raw uint8 files, as calibration data are given, with a ``labels.csv`` each."""

    Options = ArrayFolderOptions
    version = 1

    def __init__(self, options: ArrayFolderOptions) -> None:
        root = options.root
        samples = {name: read_labels(root / folder, options.classes) for name, folder in options.folders.items()}
        self.image_format = ImageFormat(height=options.height, width=options.width, colour=options.colour)
        self._splits = {
            name: _ArraySplit(name, found, self.image_format, options.layout) for name, found in samples.items()
        }
        self.digest = self._digest(portable(options), {"files": fingerprints(samples)})


class _ArraySplit(FileSplit):
    def __init__(
        self, name: str, samples: Sequence[LabelledFile], image_format: ImageFormat, layout: ArrayLayout
    ) -> None:
        super().__init__(name, samples, image_format)
        height, width, channels = image_format.shape
        self._layout = layout
        self._shape = (channels, height, width) if layout is ArrayLayout.CHW else (height, width, channels)

    def read(self, path: Path) -> NDArray[np.uint8]:
        try:
            values = read_npy(path) if path.suffix == ".npy" else np.fromfile(path, np.uint8)
        except (OSError, ValueError) as error:
            raise CalibrationDataError(f"{path}: cannot be read as an array: {error}") from error
        wanted = [size for size in self._shape if size > 1]
        fits = values.size == np.prod(self._shape) if values.ndim == 1 else [n for n in values.shape if n > 1] == wanted
        if values.dtype != np.uint8 or not fits:
            raise CalibrationDataError(
                f"{path}: holds {values.dtype} of shape {values.shape}, expected uint8 of shape {self._shape}"
            )
        array: NDArray[np.uint8] = values.reshape(self._shape)
        return np.moveaxis(array, 0, 2) if self._layout is ArrayLayout.CHW else array


def rgb(options: ImageOptions) -> ImageFormat:
    return ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)


def as_rgb(image: NDArray[np.float32], mode: ReadMode) -> NDArray[np.uint8]:
    """What ``mode`` reads as RGB, 0..255."""
    if mode is ReadMode.OPENCV:
        return reversed_colours(to_uint8(image))
    return to_uint8(Scale(scale_value=255)(image, mode))


def portable(options: FolderOptions) -> FolderOptions:
    """Where the folder lies on this machine is no part of what the data are."""
    return options.model_copy(update={"folder": Path(options.folder.name)})


def _classes_of(folder: Path) -> list[tuple[Path, str]]:
    """Image files below ``folder`` with the names of their sub-folders, else those in it, with none; sorted."""
    found = [(path, path.parent.name) for path in _images_at(folder, "*/*")]
    found = found or [(path, "") for path in _images_at(folder, "*")]
    if not found:
        raise CalibrationDataError(f"{folder}: expected image files, or a sub-folder of them per class; found none")
    return found


def _images_at(folder: Path, pattern: str) -> list[Path]:
    paths_there = sorted(folder.glob(pattern))
    return [path for path in paths_there if path.suffix.lower() in _IMAGE_SUFFIXES and path.is_file()]


def fingerprints(samples: Mapping[str, Sequence[LabelledFile]]) -> dict[str, list[list[str | int]]]:
    return {name: [fingerprint(sample) for sample in found] for name, found in samples.items()}
