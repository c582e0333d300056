"""Images with boxes and polygons from annotations in the format of COCO."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, FiniteFloat, PositiveInt, ValidationError

from engine.errors import CalibrationDataError
from harness.datasets.base import SceneTarget, SplitDataset, Targets
from harness.datasets.files import FileSplit, ImageOptions, as_rgb, fingerprints, portable, rgb
from harness.datasets.fitting import GRAY, fit_steps, placement
from harness.datasets.labelled_folder import LabelledFile
from harness.datasets.transformers import apply, read_image
from harness.terms import Fit, ReadMode

_MASK_CLASSES = 255
"""Classes that a mask of bytes can tell from its background."""


class CocoOptions(ImageOptions):
    """As :class:`ImageOptions`, and the annotations.

    Attributes:
        annotations: JSON file by split, below ``folder``.
        fit: ``stretch`` to the size, or ``pad`` in proportion with gray (127) around it.
    """

    annotations: Mapping[str, str] = Field(min_length=1)
    fit: Literal["stretch", "pad"] = "stretch"


def _even(polygon: list[float]) -> list[float]:
    if len(polygon) % 2:
        raise ValueError(f"{len(polygon)} numbers do not form pairs of coordinates")
    return polygon


def _as_polygons(segmentation: Any) -> Any:
    """Run-length codes, which crowds have, are no polygons."""
    return segmentation if isinstance(segmentation, list) else []


_Polygon = Annotated[list[FiniteFloat], AfterValidator(_even)]
"""Columns and rows of its points in turn."""


class _Category(BaseModel):
    id: int
    name: str = ""


class _Picture(BaseModel):
    id: int
    file_name: str
    height: PositiveInt
    width: PositiveInt


class _Annotation(BaseModel):
    """Attributes:
    bbox: left, top, width, height in pixels.
    segmentation: polygons.
    iscrowd: whether it surrounds a crowd.
    """

    image_id: int
    category_id: int
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    segmentation: Annotated[list[_Polygon], BeforeValidator(_as_polygons)] = Field(default_factory=list)
    iscrowd: bool = False


class CocoFile(BaseModel):
    """An annotation file; what else such files hold is not read."""

    categories: list[_Category]
    images: list[_Picture]
    annotations: list[_Annotation]


class Coco(SplitDataset):
    """Images with boxes, and polygons where there are some, from COCO-style JSON.

    Classes are numbered in the order of the categories' ids; crowds are left out; images without objects stay.
    """

    Options = CocoOptions
    version = 1

    def __init__(self, options: CocoOptions) -> None:
        root = options.root
        self.image_format = rgb(options)
        splits, found = {}, {}
        for name, file in options.annotations.items():
            content, digest = read_coco(root / file)
            folder = root / options.folders.get(name, name)
            split = _CocoSplit(name, content, folder, options, str(root / file))
            splits[name], found[name] = split, [digest, fingerprints({name: split.samples})]
        self._splits = splits
        self.digest = self._digest(portable(options), {"content": found})


class _CocoSplit(FileSplit):
    def __init__(self, name: str, content: CocoFile, folder: Path, options: CocoOptions, where: str) -> None:
        try:
            self._number = _numbered(entry.id for entry in content.categories)
            self._pictures = sorted(content.images, key=lambda entry: entry.id)
            self._objects = _by_picture(content, self._number)
            samples = [LabelledFile(_inside(folder, entry.file_name), 0) for entry in self._pictures]
        except ValueError as error:
            raise CalibrationDataError(f"{where}: is not in COCO format: {error}") from error
        super().__init__(name, samples, rgb(options))
        self._options = options

    def read(self, path: Path) -> NDArray[np.uint8]:
        size, mode = (self._options.height, self._options.width), self._options.read_mode
        gray = GRAY if mode is ReadMode.OPENCV else GRAY / 255
        return as_rgb(apply(fit_steps(Fit(self._options.fit), size, gray), read_image(path, mode), mode), mode)

    def _targets(self, indices: range) -> Targets:
        return [self._target(self._pictures[index]) for index in indices]

    def _target(self, picture: _Picture) -> SceneTarget:
        """Boxes and mask on the resized image; later objects lie over earlier ones."""
        size = np.array([self._options.width, self._options.height], np.float64)
        fitted = (self._options.height, self._options.width)
        factor, offset = placement(Fit(self._options.fit), (picture.height, picture.width), fitted)
        mask = Image.new("L", (self._options.width, self._options.height))
        draw = ImageDraw.Draw(mask)
        boxes, classes = [], []
        for found in self._objects[picture.id]:
            left, top, width, height = found.bbox
            corners = np.array([[left, top], [left + width, top + height]]) * factor + offset
            boxes.append(np.clip(corners, 0, size).reshape(4))
            classes.append(self._number[found.category_id])
            for polygon in _drawable(found):
                points = np.reshape(polygon, (-1, 2)) * factor + offset
                draw.polygon([tuple(point) for point in points.tolist()], fill=classes[-1] + 1)
        return SceneTarget(
            boxes=np.array(boxes, np.float32).reshape(-1, 4),
            classes=np.array(classes, np.int64),
            mask=np.asarray(mask, np.uint8),
        )


def _drawable(found: _Annotation) -> list[list[float]]:
    """Polygons of at least three points."""
    return [polygon for polygon in found.segmentation if len(polygon) >= 6]


def _numbered(ids: Iterable[int]) -> dict[int, int]:
    """Class by category, in the order of the ids."""
    ordered = sorted(ids)
    _check_unique("category", ordered)
    return {category: number for number, category in enumerate(ordered)}


def _by_picture(content: CocoFile, number: Mapping[int, int]) -> dict[int, list[_Annotation]]:
    """What is to be found on each image, crowds left out, in the order of the file."""
    _check_unique("image", sorted(entry.id for entry in content.images))
    objects: dict[int, list[_Annotation]] = {entry.id: [] for entry in content.images}
    for found in without_crowds(content):
        if number[found.category_id] >= _MASK_CLASSES and _drawable(found):
            raise ValueError(f"category {found.category_id} is class {number[found.category_id]}: a mask holds 0..254")
        objects[found.image_id].append(found)
    return objects


def without_crowds(content: CocoFile) -> Iterator[_Annotation]:
    """What is to be found on the images, in the order of the file.

    Raises:
        ValueError: an image or a category is not listed.
    """
    images, categories = ({entry.id for entry in listed} for listed in (content.images, content.categories))
    for found in content.annotations:
        if found.iscrowd:
            continue
        if found.image_id not in images or found.category_id not in categories:
            raise ValueError(
                f"an annotation of image {found.image_id}, category {found.category_id}: the image or the "
                "category is not listed"
            )
        yield found


def _check_unique(what: str, ids: Sequence[int]) -> None:
    """``ids`` are sorted."""
    twice = [first for first, second in pairwise(ids) if first == second]
    if twice:
        raise ValueError(f"{what} id {twice[0]} occurs twice")


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} lies outside the folder of images")
    return path


def read_coco(path: Path) -> tuple[CocoFile, str]:
    """Content and digest of an annotation file.

    Raises:
        CalibrationDataError: it cannot be read, or is of another format.
    """
    try:
        text = path.read_bytes()
        content = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationDataError(f"{path}: cannot be read as JSON: {error}") from error
    try:
        return CocoFile.model_validate(content), hashlib.sha256(text).hexdigest()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CalibrationDataError(
            f"{path}: is not in COCO format: {where}: {first['msg']}" if where else f"{path}: {first['msg']}"
        ) from error
