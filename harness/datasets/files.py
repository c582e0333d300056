"""Data sets of the user's own files: folders of images per class, COCO annotations, arrays."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import ImageDraw
from pydantic import Field, field_validator

from engine.errors import CalibrationDataError
from harness import paths
from harness.datasets.base import Colour, Dataset, ImageFormat, Images, SceneTarget, Split, Targets
from harness.datasets.labelled_folder import Sample, fingerprint, read_labels
from harness.datasets.transformers import PadResize, ReadMode, Resize, Scale, apply, parse_chain, read_image, to_uint8
from harness.strict_yaml import StrictModel

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

    def __init__(self, name: str, samples: Sequence[Sample], image_format: ImageFormat) -> None:
        super().__init__(name, len(samples))
        self.samples, self._format = samples, image_format

    @abstractmethod
    def read(self, path: Path) -> NDArray[np.uint8]:
        """One image, uint8, (height, width, channels)."""

    def _images(self, indices: range) -> Images:
        images = np.empty((len(indices), *self._format.shape), np.uint8)
        for position, index in enumerate(indices):
            path = self.samples[index].path
            image = self.read(path)
            if image.shape != self._format.shape:
                raise CalibrationDataError(f"{path}: becomes {image.shape}, expected {self._format.shape}")
            images[position] = image
        return images

    def _targets(self, indices: range) -> Targets:
        return np.array([self.samples[index].label for index in indices], np.int64)


class _PictureSplit(FileSplit):
    def __init__(self, name: str, samples: Sequence[Sample], options: ImageFolderOptions) -> None:
        super().__init__(name, samples, _rgb(options))
        self._mode, self._chain = options.read_mode, parse_chain(options.transformers)

    def read(self, path: Path) -> NDArray[np.uint8]:
        return _as_rgb(apply(self._chain, read_image(path, self._mode), self._mode), self._mode)


class ImageFolder(Dataset):
    """ImageNet-style: a sub-folder per class in every split; classes are numbered in the order of their names."""

    Options = ImageFolderOptions
    version = 1

    def __init__(self, options: ImageFolderOptions) -> None:
        root = options.root
        listed = {name: _classes_of(root / folder) for name, folder in options.folders.items()}
        classes = sorted({label for samples in listed.values() for _, label in samples})
        number = {label: index for index, label in enumerate(classes)}
        samples = {name: [Sample(path, number[label]) for path, label in found] for name, found in listed.items()}
        self.image_format = _rgb(options)
        self._splits = {name: _PictureSplit(name, found, options) for name, found in samples.items()}
        self.digest = self._digest(_portable(options), {"classes": classes, "files": _fingerprints(samples)})

    @property
    def splits(self) -> Mapping[str, Split]:
        """One per sub-folder."""
        return MappingProxyType(dict(self._splits))


class ArrayLayout(StrEnum):
    """Order of the dimensions of an array in a file."""

    HWC = "HWC"
    CHW = "CHW"


class ArrayFolderOptions(FolderOptions):
    """As :class:`FolderOptions`, and what the files hold.

    Attributes:
        height, width, colour: of every image.
        layout: of every array; ``.npy`` files may have a first dimension of 1 before it.
    """

    height: int = Field(ge=1)
    width: int = Field(ge=1)
    colour: Colour = Colour.RGB
    layout: ArrayLayout = ArrayLayout.CHW
    classes: int = Field(ge=2)


class ArrayFolder(Dataset):
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
        self.digest = self._digest(_portable(options), {"files": _fingerprints(samples)})

    @property
    def splits(self) -> Mapping[str, Split]:
        """One per sub-folder."""
        return MappingProxyType(dict(self._splits))


class _ArraySplit(FileSplit):
    def __init__(self, name: str, samples: Sequence[Sample], image_format: ImageFormat, layout: ArrayLayout) -> None:
        super().__init__(name, samples, image_format)
        height, width, channels = image_format.shape
        self._layout = layout
        self._shape = (channels, height, width) if layout is ArrayLayout.CHW else (height, width, channels)

    def read(self, path: Path) -> NDArray[np.uint8]:
        try:
            values = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.fromfile(path, np.uint8)
        except (OSError, ValueError) as error:
            raise CalibrationDataError(f"{path}: cannot be read as an array: {error}") from error
        if values.dtype != np.uint8 or values.size != np.prod(self._shape):
            raise CalibrationDataError(
                f"{path}: holds {values.size} values of {values.dtype}, expected uint8 of shape {self._shape}"
            )
        array: NDArray[np.uint8] = values.reshape(self._shape)
        return np.moveaxis(array, 0, 2) if self._layout is ArrayLayout.CHW else array


class CocoOptions(ImageOptions):
    """As :class:`ImageOptions`, and the annotations.

    Attributes:
        annotations: JSON file by split, below ``folder``.
        fit: ``stretch`` to the size, or ``pad`` in proportion with gray (127) around it.
    """

    annotations: Mapping[str, str] = Field(min_length=1)
    fit: Literal["stretch", "pad"] = "stretch"


class Coco(Dataset):
    """Images with boxes, and polygons where there are some, from COCO-style JSON.

    Classes are numbered in the order of the categories' ids; crowds are left out; images without objects stay.
    """

    Options = CocoOptions
    version = 1

    def __init__(self, options: CocoOptions) -> None:
        root = options.root
        self.image_format = _rgb(options)
        self._splits, found = {}, {}
        for name, file in options.annotations.items():
            content, digest = _annotations(root / file)
            folder = root / options.folders.get(name, name)
            split = _CocoSplit(name, content, folder, options, str(root / file))
            self._splits[name], found[name] = split, [digest, _fingerprints({name: split.samples})]
        self.digest = self._digest(_portable(options), {"content": found})

    @property
    def splits(self) -> Mapping[str, Split]:
        """One per annotation file."""
        return MappingProxyType(dict(self._splits))


class _CocoSplit(FileSplit):
    def __init__(self, name: str, content: Mapping[str, Any], folder: Path, options: CocoOptions, where: str) -> None:
        try:
            order = {entry["id"]: index for index, entry in enumerate(sorted(content["categories"], key=_id))}
            entries = sorted(content["images"], key=_id)
            objects: dict[Any, list[Any]] = {entry["id"]: [] for entry in entries}
            for annotation in content["annotations"]:
                if not annotation.get("iscrowd"):
                    objects[annotation["image_id"]].append(annotation)
            samples = [Sample(_inside(folder, entry["file_name"]), 0) for entry in entries]
            self._sizes = [(int(entry["height"]), int(entry["width"])) for entry in entries]
            self._objects = [
                [
                    (order[a["category_id"]], tuple(map(float, a["bbox"])), _polygons(a.get("segmentation")))
                    for a in objects[entry["id"]]
                ]
                for entry in entries
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise CalibrationDataError(f"{where}: is not in COCO's format: {type(error).__name__} {error}") from error
        super().__init__(name, samples, _rgb(options))
        self._options = options

    def read(self, path: Path) -> NDArray[np.uint8]:
        size, mode = (self._options.height, self._options.width), self._options.read_mode
        gray = 127.0 if mode is ReadMode.OPENCV else 127.0 / 255
        step = (
            Resize(target_size=size) if self._options.fit == "stretch" else PadResize(target_size=size, pad_value=gray)
        )
        return _as_rgb(step(read_image(path, mode), mode), mode)

    def _targets(self, indices: range) -> Targets:
        return [self._target(index) for index in indices]

    def _target(self, index: int) -> SceneTarget:
        """Boxes and mask on the resized image; later objects lie over earlier ones."""
        size = np.array([self._options.width, self._options.height], np.float64)
        original = np.array(self._sizes[index][::-1], np.float64)
        factor, offset = size / original, np.zeros(2)
        if self._options.fit == "pad":
            factor = np.repeat(factor.min(), 2)
            offset = (size - np.floor(original * factor + 0.5)) // 2
        mask = PilImage.new("L", (self._options.width, self._options.height))
        draw = ImageDraw.Draw(mask)
        boxes, classes = [], []
        for number, (left, top, width, height), polygons in self._objects[index]:
            corners = np.array([[left, top], [left + width, top + height]]) * factor + offset
            boxes.append(np.clip(corners, 0, size).reshape(4))
            classes.append(number)
            for polygon in polygons:
                points = np.reshape(polygon, (-1, 2)) * factor + offset
                draw.polygon([tuple(point) for point in points.tolist()], fill=number + 1)
        return SceneTarget(
            boxes=np.array(boxes, np.float32).reshape(-1, 4),
            classes=np.array(classes, np.int64),
            mask=np.asarray(mask, np.uint8),
        )


def _rgb(options: ImageOptions) -> ImageFormat:
    return ImageFormat(height=options.height, width=options.width, colour=Colour.RGB)


def _as_rgb(image: NDArray[np.float32], mode: ReadMode) -> NDArray[np.uint8]:
    """What ``mode`` reads as RGB, 0..255."""
    if mode is ReadMode.OPENCV:
        return to_uint8(image[..., ::-1])
    return to_uint8(Scale(scale_value=255)(image, mode))


def _portable(options: FolderOptions) -> FolderOptions:
    """Where the folder lies on this machine is no part of what the data are."""
    return options.model_copy(update={"folder": Path(options.folder.name)})


def _classes_of(folder: Path) -> list[tuple[Path, str]]:
    """Image files below ``folder`` with the names of their sub-folders, sorted."""
    found = [
        (path, path.parent.name)
        for path in sorted(folder.glob("*/*"))
        if path.suffix.lower() in _IMAGE_SUFFIXES and path.is_file()
    ]
    if not found:
        raise CalibrationDataError(f"{folder}: expected a sub-folder of image files per class, found none")
    return found


def _fingerprints(samples: Mapping[str, Sequence[Sample]]) -> dict[str, list[list[str | int]]]:
    return {name: [fingerprint(sample) for sample in found] for name, found in samples.items()}


def _annotations(path: Path) -> tuple[Mapping[str, Any], str]:
    """Content and digest of a JSON file."""
    try:
        text = path.read_bytes()
        content = json.loads(text)
    except (OSError, ValueError) as error:
        raise CalibrationDataError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, Mapping):
        raise CalibrationDataError(f"{path}: is not in COCO's format: holds {type(content).__name__}")
    return content, hashlib.sha256(text).hexdigest()


def _id(entry: Mapping[str, Any]) -> int:
    return int(entry["id"])


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} leaves the folder of images")
    return path


def _polygons(segmentation: Any) -> list[list[float]]:
    """Polygons of at least three points; run-length codes, which crowds have, are none."""
    if not isinstance(segmentation, list):
        return []
    return [list(map(float, polygon)) for polygon in segmentation if len(polygon) >= 6]
