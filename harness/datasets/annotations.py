"""Labels of image files in usual forms: class folders, tables, boxes, masks, texts; a reader for each."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from engine.errors import CalibrationDataError
from harness.datasets.base import NO_LABEL
from harness.datasets.box_annotations import (
    BoxListing,
    LabelledBox,
    as_remarks,
    coco_boxes,
    refuse_twice,
    voc_boxes,
    yolo_boxes,
)
from harness.datasets.label_files import (
    FILE_COLUMNS,
    PICTURE_SUFFIXES,
    SAMPLE_SUFFIXES,
    NamedImages,
    asked_column,
    file_column,
    numbered,
    pictures,
    read_label_text,
)
from harness.datasets.mask_annotations import mask_listing
from harness.datasets.text_annotations import text_boxes_of, text_lines_of

_LABEL_COLUMNS = ("label", "class", "class_id", "target", "category", "id", "class_name")


SPLIT_FOLDERS = ("train", "training", "val", "valid", "validation", "test", "testing", "calib", "calibration", "eval")
"""Names of folders that are parts of a data set and no classes."""


class LabelFormat(StrEnum):
    """How labels of images are given.

    Attributes:
        NONE: there are none.
        CLASS_FOLDERS: a sub-folder per class, numbered in the order of their names, or by them where all are numbers;
            in folders of splits (``train``, ``val``, …) where those are all that there is.
        CSV: a table of file and class, with or without a headline; separated by commas, semicolons, tabs or blanks.
        COCO: boxes, a JSON file.
        YOLO: boxes, a text file per image.
        VOC: boxes, an XML file per image.
        MASKS: a class per pixel, an image per image.
        TEXT: the text of each image, lines of image and text.
        TEXT_BOXES: words on pages, as PaddleOCR or ICDAR give them.
    """

    NONE = "none"
    CLASS_FOLDERS = "class_folders"
    CSV = "csv"
    COCO = "coco"
    YOLO = "yolo"
    VOC = "voc"
    MASKS = "masks"
    TEXT = "text"
    TEXT_BOXES = "text_boxes"


@dataclass(frozen=True)
class Annotated:
    """An image file and what is known of it.

    Attributes:
        path: of the image.
        label: its class, or :data:`NO_LABEL`.
        boxes: of its objects; None where objects are not labelled.
        mask: file with the class of each pixel; None where there is none.
        text: that is to be read on it; None where there is none.
    """

    path: Path
    label: int = NO_LABEL
    boxes: tuple[LabelledBox, ...] | None = None
    mask: Path | None = None
    text: str | None = None


@dataclass(frozen=True)
class Annotations:
    """Images with labels, in a fixed order.

    Attributes:
        images: all of them.
        classes: names of the classes in the order of their numbers; empty where they have none.
        remarks: images without labels and labels without images, counted, in words.
    """

    images: tuple[Annotated, ...]
    classes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def read_annotations(kind: LabelFormat, folder: Path, labels: Path | None, column: str = "") -> Annotations:
    """The images of ``folder`` with their labels.

    Args:
        kind: what the labels are.
        folder: of the images.
        labels: file or folder of the labels; None where they lie among the images, or there are none.
        column: headline of the labels, or texts, of a table; empty to look for it.

    Raises:
        CalibrationDataError: there are no images, or the labels are wrong; says where.
    """
    if column and kind not in TABLES:
        raise CalibrationDataError(f"label column {column!r}: labels of kind {kind.value} are in no table")
    found = TABLES[kind](folder, labels, column) if kind in TABLES else _READERS[kind](folder, labels)
    if not found.images:
        arrays = sum(path.suffix.lower() == ".npy" for path in folder.rglob("*"))
        hint = f", but {arrays} .npy file(s): {_ARRAYS}" if arrays else ""
        raise CalibrationDataError(f"{folder}: holds no images ({', '.join(sorted(PICTURE_SUFFIXES))}){hint}")
    return found


_ARRAYS = "arrays need adapter own_arrays, input_folders or array_folder, see docs/datasets.md"


def _without(folder: Path, labels: Path | None) -> Annotations:
    del labels
    return Annotations(tuple(Annotated(path) for path in pictures(folder)))


def _class_folders(folder: Path, labels: Path | None) -> Annotations:
    del labels
    found = [(path, path.relative_to(folder).parts) for path in pictures(folder)]
    loose = [path for path, parts in found if len(parts) == 1]
    if loose:
        raise CalibrationDataError(f"{loose[0]}: is not in the folder of a class")
    level = class_level(parts for _, parts in found)
    number, names = numbered([parts[level] for _, parts in found])
    return Annotations(tuple(Annotated(path, number[parts[level]]) for path, parts in found), names)


def class_level(paths: Iterable[tuple[str, ...]]) -> int:
    """Which part of ``paths`` names the class: the first folder, or the second if all first ones are splits."""
    return int(all(len(parts) > 2 and parts[0].lower() in SPLIT_FOLDERS for parts in paths))


def _table(folder: Path, labels: Path | None, column: str) -> Annotations:
    file = labels or folder / "labels.csv"
    there = NamedImages(folder)
    rows = [(there.find(name), label) for name, label in _rows(file, there, column)]
    pairs = [(path, label) for path, label in rows if path is not None]
    if not pairs:
        raise CalibrationDataError(f"{file}: names {len(rows)} images, none of which is in {folder}")
    refuse_twice(file, [path for path, _ in pairs])
    number, names = numbered([label for _, label in pairs])
    remarks = [
        (len(there.images) - len(pairs), "image(s) without labels are left out"),
        (len(rows) - len(pairs), f"image(s) that {file.name} names are missing"),
    ]
    return Annotations(tuple(Annotated(path, number[label]) for path, label in pairs), names, as_remarks(remarks))


def _coco(folder: Path, labels: Path | None) -> Annotations:
    if labels is None:
        raise CalibrationDataError(f"{folder}: COCO labels are a JSON file; give its name")
    return _boxed(coco_boxes(folder, labels))


def _boxed(listing: BoxListing) -> Annotations:
    images = tuple(Annotated(path, boxes=boxes) for path, boxes in listing.images)
    return Annotations(images, listing.classes, listing.remarks)


def _masks(folder: Path, labels: Path | None) -> Annotations:
    found, missing = mask_listing(folder, labels)
    remarks = as_remarks([(missing, "image(s) without a mask are left out")])
    return Annotations(tuple(Annotated(path, mask=mask) for path, mask in found), remarks=remarks)


def _texts(folder: Path, labels: Path | None, column: str) -> Annotations:
    found, missing = text_lines_of(folder, labels, column)
    remarks = as_remarks([(missing, "line(s) whose image is missing are left out")])
    return Annotations(tuple(Annotated(path, text=text) for path, text in found), remarks=remarks)


def _rows(file: Path, there: NamedImages, column: str) -> list[tuple[str, str]]:
    """Image and label of every row of a table."""
    text = read_label_text(file)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise CalibrationDataError(f"{file}: is empty; expected an image and its class on every line")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0][1]), " ")
    cells = [(number, _cells(line, separator)) for number, line in lines]
    head = [cell.strip().lower() for cell in cells[0][1]]
    where = file_column(head, [row for _, row in cells[1:]], there)
    what = asked_column(file, head, column) if column else _column(head, _LABEL_COLUMNS, where)
    if where is not None and what is not None:
        cells = cells[1:]
    elif Path(cells[0][1][0]).suffix.lower() in SAMPLE_SUFFIXES:
        where, what = 0, 1
    else:
        raise CalibrationDataError(
            f"{file}: columns {', '.join(head)}; expected one of {', '.join(FILE_COLUMNS)}, and one of "
            f"{', '.join(_LABEL_COLUMNS)}, or an image and its class in every line; --label-column names another"
        )
    for number, row in cells:
        if len(row) <= max(where, what) or not row[what].strip():
            raise CalibrationDataError(f"{file}:{number}: {separator.join(row)!r}: expected an image and its class")
    return [(row[where].strip(), row[what].strip()) for _, row in cells]


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        name, _, label = line.strip().rpartition(" ")
        return [name, label]
    return next(csv.reader(io.StringIO(line), delimiter=separator))


def _column(head: Sequence[str], names: Sequence[str], other: int | None) -> int | None:
    """The first of ``names`` among the headlines that is not the column ``other``."""
    return next((head.index(name) for name in names if name in head and head.index(name) != other), None)


_READERS: Mapping[LabelFormat, Callable[[Path, Path | None], Annotations]] = MappingProxyType(
    {
        LabelFormat.NONE: _without,
        LabelFormat.CLASS_FOLDERS: _class_folders,
        LabelFormat.COCO: _coco,
        LabelFormat.YOLO: lambda folder, labels: _boxed(yolo_boxes(folder, labels)),
        LabelFormat.VOC: lambda folder, labels: _boxed(voc_boxes(folder, labels)),
        LabelFormat.MASKS: _masks,
        LabelFormat.TEXT_BOXES: lambda folder, labels: _boxed(text_boxes_of(folder, labels)),
    }
)
"""What reads labels of each form but tables."""
TABLES: Mapping[LabelFormat, Callable[[Path, Path | None, str], Annotations]] = MappingProxyType(
    {LabelFormat.CSV: _table, LabelFormat.TEXT: _texts}
)
"""What reads tables, whose column of labels may have any name."""
