"""Boxes of objects in the forms of COCO, YOLO and PASCAL VOC."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import load_yaml
from engine.errors import CalibrationDataError, ConfigError
from harness.datasets.coco import read_coco, without_crowds
from harness.datasets.label_files import NamedImages, instead_of_images, numbered, read_label_text, samples_in

_LARGEST_XML = 4 << 20
"""Bytes of an annotation of one image."""


class LabelledBox(NamedTuple):
    """An object on an image.

    Attributes:
        label: its class.
        left, top, right, bottom: in pixels of the image file, or shares of its width and height.
        is_relative: which of both.
    """

    label: int
    left: float
    top: float
    right: float
    bottom: float
    is_relative: bool = False

    def in_pixels(self, height: int, width: int) -> NDArray[np.float64]:
        """Corners, float64, ((left, top), (right, bottom)), on an image of that size."""
        ends = np.array([[self.left, self.top], [self.right, self.bottom]], np.float64)
        return ends * (width, height) if self.is_relative else ends


@dataclass(frozen=True)
class BoxListing:
    """Images with their objects.

    Attributes:
        images: each with its boxes.
        classes: names of the classes; empty where they have none.
        remarks: what does not match, in words.
    """

    images: list[tuple[Path, tuple[LabelledBox, ...]]]
    classes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def coco_boxes(folder: Path, labels: Path) -> BoxListing:
    """Boxes of a JSON file in COCO's format; classes in the order of the categories' ids, crowds left out.

    Images of the file that are not in ``folder`` are left out, because a part of a data set is a data set too.

    Raises:
        CalibrationDataError: the file is of another format, or names no image of ``folder``.
    """
    content, _ = read_coco(labels)
    categories = sorted(content.categories, key=lambda entry: entry.id)
    number = {entry.id: index for index, entry in enumerate(categories)}
    objects: dict[int, list[LabelledBox]] = {entry.id: [] for entry in content.images}
    try:
        annotations = list(without_crowds(content))
    except ValueError as error:
        raise CalibrationDataError(f"{labels}: {error}") from error
    for found in annotations:
        left, top, width, height = found.bbox
        box = LabelledBox(number[found.category_id], left, top, left + width, top + height)
        objects[found.image_id].append(box)
    there = NamedImages(folder)
    found_at = [(there.find(entry.file_name), entry) for entry in sorted(content.images, key=lambda entry: entry.id)]
    listed = [(path, tuple(objects[entry.id])) for path, entry in found_at if path is not None]
    if not listed:
        raise CalibrationDataError(f"{labels}: names {len(content.images)} images, none of which is in {folder}")
    refuse_twice(labels, [path for path, _ in listed])
    names = tuple(entry.name for entry in categories)
    remarks = [
        (len(there.images) - len(listed), "image(s) without labels are left out"),
        (len(found_at) - len(listed), f"image(s) that {labels.name} names are missing"),
    ]
    return BoxListing(listed, names if all(names) else (), as_remarks(remarks))


def refuse_twice(labels: Path, images: Sequence[Path]) -> None:
    """Refuse labels that name an image twice: it could be calibrated on and evaluated.

    Raises:
        CalibrationDataError: they do.
    """
    twice = [path for path, count in Counter(images).items() if count > 1]
    if twice:
        raise CalibrationDataError(f"{labels}: names {twice[0].name} twice")


def as_remarks(remarks: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """The remarks whose number is above 0, the number in front."""
    return tuple(f"{number} {text}" for number, text in remarks if number > 0)


def yolo_boxes(folder: Path, labels: Path | None) -> BoxListing:
    """Boxes of text files named as the images: class, centre x, centre y, width, height, in shares of the image.

    More numbers than that are the corners of a polygon. An image without a file has no objects.

    Raises:
        CalibrationDataError: a line is wrong, or no image has a file.
    """
    found = _with_files(folder, labels, LabelFiles.YOLO)
    if not any(file for _, file in found):
        raise CalibrationDataError(f"{labels or folder}: holds no text file with the name of an image of {folder}")
    listed = [(path, () if file is None else tuple(_yolo_lines(file))) for path, file in found]
    remarks = [
        (sum(file is None for _, file in found), "image(s) without a text file are taken for images without objects"),
        (_strays(found, labels, LabelFiles.YOLO), "text file(s) have no image"),
    ]
    return BoxListing(listed, _yolo_names(labels or folder), as_remarks(remarks))


def _yolo_lines(file: Path) -> Iterator[LabelledBox]:
    for number, line in enumerate(read_label_text(file).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            label, values = int(words[0]), [float(word) for word in words[1:]]
        except ValueError:
            label, values = -1, []
        is_polygon = len(values) >= 6 and len(values) % 2 == 0
        if label < 0 or not (len(values) == 4 or is_polygon) or not all(map(isfinite, values)):
            raise CalibrationDataError(
                f"{file}:{number}: {line[:80]!r}: expected a class and four numbers or a polygon, relative "
                "to the image size"
            )
        if is_polygon:
            columns, rows = values[::2], values[1::2]
            ends = min(columns), min(rows), max(columns), max(rows)
        else:
            x, y, width, height = values
            ends = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        yield LabelledBox(label, *ends, is_relative=True)


def _yolo_names(labels: Path) -> tuple[str, ...]:
    """Names of the classes from ``classes.txt``, or from ``names`` of a ``data.yaml`` beside or above the labels."""
    for listed in (labels / "classes.txt", labels / LabelFiles.YOLO.value[1] / "classes.txt"):
        if listed.is_file():
            return tuple(line.strip() for line in read_label_text(listed).splitlines() if line.strip())
    for folder in (labels, labels.parent, labels.parent.parent):
        try:
            content = load_yaml(folder / "data.yaml") if (folder / "data.yaml").is_file() else {}
        except ConfigError as error:
            raise CalibrationDataError(str(error)) from error
        names = content.get("names") if isinstance(content, dict) else None
        if isinstance(names, dict):
            names = [names[key] for key in sorted(names)]
        if isinstance(names, list):
            return tuple(str(name) for name in names)
    return ()


def voc_boxes(folder: Path, labels: Path | None) -> BoxListing:
    """Boxes of XML files named as the images, in the format of PASCAL VOC; images without a file are left out.

    Classes are numbered in the order of their names. VOC counts pixels from 1, and its right and bottom belong to the
    object; objects marked ``difficult`` stay.

    Raises:
        CalibrationDataError: a file is wrong, or no image has one.
    """
    files = _with_files(folder, labels, LabelFiles.VOC)
    read = [(path, _voc_objects(file)) for path, file in files if file is not None]
    if not read:
        raise CalibrationDataError(f"{labels or folder}: holds no XML file with the name of an image of {folder}")
    number, names = numbered([name for _, objects in read for name, _ in objects])
    listed = [(path, tuple(LabelledBox(number[name], *ends) for name, ends in objects)) for path, objects in read]
    remarks = [
        (len(files) - len(read), "image(s) without labels are left out"),
        (_strays(files, labels, LabelFiles.VOC), "XML file(s) have no image"),
    ]
    return BoxListing(listed, names, as_remarks(remarks))


def _voc_objects(file: Path) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Name and left, top, right, bottom of every object of a file."""
    text = read_label_text(file)
    if len(text) > _LARGEST_XML or "<!" in text.replace("<!--", ""):
        raise CalibrationDataError(f"{file}: is not a PASCAL VOC annotation: it is too large or has declarations")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without declarations, so without entities
        found: list[tuple[str, tuple[float, float, float, float]]] = []
        for entry in root.iter("object"):
            box = entry.find("bndbox")
            left, top, right, bottom = (
                float((box.findtext(key) if box is not None else None) or "") for key in _VOC_KEYS
            )
            found.append((entry.findtext("name", "").strip(), (left - 1, top - 1, right, bottom)))
    except (ElementTree.ParseError, ValueError) as error:
        raise CalibrationDataError(f"{file}: is not a PASCAL VOC annotation: {error}") from error
    if any(not name or not np.isfinite(ends).all() for name, ends in found):
        raise CalibrationDataError(f"{file}: an object has no name, or no box")
    return found


_VOC_KEYS = ("xmin", "ymin", "xmax", "ymax")


class LabelFiles(Enum):
    """Files of labels, one per image: suffix, and the folder that stands for that of the images.

    Attributes:
        YOLO, VOC: of these forms.
    """

    YOLO = (".txt", "labels")
    VOC = (".xml", "Annotations")


OTHER_TEXTS = ("classes.txt", "labels.txt", "README.txt")
"""Text files beside labels that are none."""


def _with_files(folder: Path, labels: Path | None, kind: LabelFiles) -> list[tuple[Path, Path | None]]:
    """Every image with its file of labels.

    The file lies at the same place below ``labels``, or in it; without ``labels`` beside the image, or in the folder of
    labels beside that of the images.
    """
    suffix, name = kind.value
    found = []
    for path in samples_in(folder):
        if labels is not None:
            places = [labels / path.relative_to(folder), labels / path.name]
        else:
            instead = instead_of_images(path, name)
            places = [path] if instead is None else [path, instead]
        candidates = [place.with_suffix(ending) for place in places for ending in (suffix, suffix.upper())]
        found.append((path, next((file for file in candidates if file.is_file()), None)))
    return found


def _strays(found: Sequence[tuple[Path, Path | None]], labels: Path | None, kind: LabelFiles) -> int:
    """Files in the folder of labels that belong to no image."""
    if labels is None:
        return 0
    used = {file for _, file in found}
    suffix, _ = kind.value
    files = (path for path in labels.rglob("*") if path.suffix.lower() == suffix and path.name not in OTHER_TEXTS)
    return sum(path not in used for path in files)
