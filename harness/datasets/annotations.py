"""Labels of image files in the forms that people have them in: class folders, tables, boxes; a reader for each."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from engine.errors import CalibrationDataError
from harness.datasets.base import NO_LABEL
from harness.datasets.box_annotations import BoxListing, LabelledBox, coco_boxes, voc_boxes, yolo_boxes
from harness.datasets.label_files import PICTURE_SUFFIXES, numbered, pictures, read_label_text

_FILE_COLUMNS = ("file", "filename", "file_name", "image", "image_id", "path", "name")
_LABEL_COLUMNS = ("label", "class", "class_id", "target", "category", "id", "class_name")


class LabelFormat(StrEnum):
    """How labels of images are given.

    Attributes:
        NONE: there are none.
        CLASS_FOLDERS: a sub-folder per class, numbered in the order of their names, or by them where all are numbers.
        CSV: a table of file and class, with or without a headline; separated by commas, semicolons, tabs or blanks.
        COCO: boxes, a JSON file.
        YOLO: boxes, a text file per image.
        VOC: boxes, an XML file per image.
    """

    NONE = "none"
    CLASS_FOLDERS = "class_folders"
    CSV = "csv"
    COCO = "coco"
    YOLO = "yolo"
    VOC = "voc"


@dataclass(frozen=True)
class Annotated:
    """An image file and what is known of it.

    Attributes:
        path: of the image.
        label: its class, or :data:`NO_LABEL`.
        boxes: of its objects; None where objects are not labelled.
    """

    path: Path
    label: int = NO_LABEL
    boxes: tuple[LabelledBox, ...] | None = None


@dataclass(frozen=True)
class Annotations:
    """Images with labels, in a fixed order.

    Attributes:
        images: all of them.
        classes: names of the classes in the order of their numbers; empty where they have none.
    """

    images: tuple[Annotated, ...]
    classes: tuple[str, ...] = ()


def read_annotations(kind: LabelFormat, folder: Path, labels: Path | None) -> Annotations:
    """The images of ``folder`` with their labels.

    Args:
        kind: what the labels are.
        folder: of the images.
        labels: file or folder of the labels; None where they lie among the images, or there are none.

    Raises:
        CalibrationDataError: there are no images, or the labels are wrong; says where.
    """
    found = _READERS[kind](folder, labels)
    if not found.images:
        raise CalibrationDataError(f"{folder}: holds no images ({', '.join(sorted(PICTURE_SUFFIXES))})")
    return found


def _without(folder: Path, labels: Path | None) -> Annotations:
    del labels
    return Annotations(tuple(Annotated(path) for path in pictures(folder)))


def _class_folders(folder: Path, labels: Path | None) -> Annotations:
    del labels
    found = [(path, path.relative_to(folder).parts) for path in pictures(folder)]
    loose = [path for path, parts in found if len(parts) == 1]
    if loose:
        raise CalibrationDataError(f"{loose[0]}: is not in the folder of a class")
    number, names = numbered([parts[0] for _, parts in found])
    return Annotations(tuple(Annotated(path, number[parts[0]]) for path, parts in found), names)


def _table(folder: Path, labels: Path | None) -> Annotations:
    file = labels or folder / "labels.csv"
    rows = _rows(file)
    pairs = [(_inside_of(folder, name, f"{file}:{line}"), label, f"{file}:{line}") for line, name, label in rows]
    number, names = numbered([label for _, label, _ in pairs])
    return Annotations(tuple(Annotated(path, number[label]) for path, label, _ in pairs), names)


def _coco(folder: Path, labels: Path | None) -> Annotations:
    if labels is None:
        raise CalibrationDataError(f"{folder}: COCO labels are a JSON file; give its name")
    return _boxed(coco_boxes(folder, labels))


def _boxed(listing: BoxListing) -> Annotations:
    images, names = listing
    return Annotations(tuple(Annotated(path, boxes=boxes) for path, boxes in images), names)


def _rows(file: Path) -> list[tuple[int, str, str]]:
    """Line, image and label of every row of a table."""
    text = read_label_text(file)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise CalibrationDataError(f"{file}: is empty; expected an image and its class on every line")
    separator = next((mark for mark in (",", ";", "\t") if mark in lines[0][1]), " ")
    cells = [(number, _cells(line, separator)) for number, line in lines]
    head = [cell.strip().lower() for cell in cells[0][1]]
    where, what = (_column(head, names) for names in (_FILE_COLUMNS, _LABEL_COLUMNS))
    if where is not None and what is not None:
        cells = cells[1:]
    elif Path(cells[0][1][0]).suffix.lower() in PICTURE_SUFFIXES:
        where, what = 0, 1
    else:
        raise CalibrationDataError(
            f"{file}: columns {', '.join(head)}; expected one of {', '.join(_FILE_COLUMNS)}, and one of "
            f"{', '.join(_LABEL_COLUMNS)}, or an image and its class in every line"
        )
    for number, row in cells:
        if len(row) <= max(where, what) or not row[what].strip():
            raise CalibrationDataError(f"{file}:{number}: {separator.join(row)!r}: expected an image and its class")
    return [(number, row[where].strip(), row[what].strip()) for number, row in cells]


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        name, _, label = line.strip().rpartition(" ")
        return [name, label]
    return next(csv.reader(io.StringIO(line), delimiter=separator))


def _column(head: Sequence[str], names: Sequence[str]) -> int | None:
    return next((head.index(name) for name in names if name in head), None)


def _inside_of(folder: Path, name: str, where: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise CalibrationDataError(f"{where}: {name!r} is not a file in {folder}")
    return path


_READERS: Mapping[LabelFormat, Callable[[Path, Path | None], Annotations]] = MappingProxyType(
    {
        LabelFormat.NONE: _without,
        LabelFormat.CLASS_FOLDERS: _class_folders,
        LabelFormat.CSV: _table,
        LabelFormat.COCO: _coco,
        LabelFormat.YOLO: lambda folder, labels: _boxed(yolo_boxes(folder, labels)),
        LabelFormat.VOC: lambda folder, labels: _boxed(voc_boxes(folder, labels)),
    }
)
"""What reads labels of each form."""
