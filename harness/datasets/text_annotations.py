"""Texts of lines, and boxes of words on pages, in the forms of PaddleOCR, ICDAR and of tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import CalibrationDataError
from harness.datasets.box_annotations import BoxListing, LabelledBox
from harness.datasets.label_files import (
    FILE_COLUMNS,
    SAMPLE_SUFFIXES,
    NamedImages,
    asked_column,
    file_column,
    read_label_text,
    samples_in,
)

TEXT_COLUMNS = ("text", "words", "word", "transcription", "gt")
"""Columns of tables that hold texts."""
_PERHAPS_TEXT = ("label", "target")
_OF_CLASSES = ("class", "class_id", "class_name", "category", "name", "id")
"""Columns that hold texts or classes; classes where one of the latter stands beside."""
UNREADABLE = ("###", "*")
"""Transcriptions that mark illegible text."""


def text_lines_of(folder: Path, labels: Path | None, column: str = "") -> tuple[list[tuple[Path, str]], int]:
    """Images with their texts, and the number of lines whose image is not in ``folder``.

    A line is ``image<TAB>text`` (PaddleOCR), or a row of a table with commas or semicolons, with or without a headline.
    ``column`` is the headline of the texts; empty to look for it.

    Raises:
        CalibrationDataError: a line is of another form, or no image is in ``folder``.
    """
    file = labels or text_file(folder, column)
    if file is None or not file.is_file():
        raise CalibrationDataError(f"{file or folder}: no file of texts; give --labels, lines of image<TAB>text")
    there = NamedImages(folder)
    found, missing, taken = [], 0, set()
    for number, name, text in _rows(file, there, column):
        path = there.find(name)
        if path is None:
            missing += 1
        elif path in taken:
            raise CalibrationDataError(f"{file}:{number}: {name!r} occurs twice")
        else:
            taken.add(path)
            found.append((path, text))
    if not found:
        raise CalibrationDataError(f"{file}: names {missing} images, none of them is in {folder}")
    return found, missing


def text_file(folder: Path, column: str = "") -> Path | None:
    """A file of texts in ``folder`` or beside it: named for labels, and its first line names an image.

    ``column`` is the headline of the texts of a table; empty to look for it.
    """
    for place in (folder, folder.parent):
        for file in sorted(place.iterdir()):
            is_named = any(word in file.stem.lower() for word in ("gt", "label", "text", "words"))
            if file.suffix.lower() in (".txt", ".csv", ".tsv") and is_named and file.is_file():
                there = NamedImages(folder)
                try:
                    _, name, _ = next(_rows(file, there, column))
                except (CalibrationDataError, StopIteration):
                    continue
                if there.find(name) is not None:
                    return file
    return None


def _rows(file: Path, there: NamedImages, column: str) -> Iterator[tuple[int, str, str]]:
    """Line, image and text of every row."""
    lines = [(n, line) for n, line in enumerate(read_label_text(file).splitlines(), 1) if line.strip()]
    if not lines:
        raise CalibrationDataError(f"{file}: is empty; expected lines of image<TAB>text")
    separator = next((mark for mark in ("\t", ",", ";") if mark in lines[0][1]), " ")
    where, what, most = 0, 1, 1
    head = [cell.strip().lower() for cell in _cells(lines[0][1], separator, -1)]
    rows = [_cells(line, separator, -1) for _, line in lines[1:]]
    images = file_column(head, rows, there)
    texts = asked_column(file, head, column) if column else _text_column(head, images)
    if images is not None and texts is not None:
        where, what, lines = images, texts, lines[1:]
        most = 1 if max(where, what) < 2 and where == 0 else -1
    elif Path(head[0]).suffix not in SAMPLE_SUFFIXES:
        raise CalibrationDataError(
            f"{file}:{lines[0][0]}: {lines[0][1][:80]!r}: expected image<TAB>text, or a headline with one of "
            f"{', '.join(FILE_COLUMNS)} and one of {', '.join((*TEXT_COLUMNS, *_PERHAPS_TEXT))}; --label-column names "
            "another"
        )
    for number, line in lines:
        cells = _cells(line, separator, most)
        if len(cells) <= max(where, what):
            raise CalibrationDataError(f"{file}:{number}: {line[:80]!r}: expected an image and its text")
        yield number, cells[where].strip(), cells[what].strip()


def _text_column(head: Sequence[str], images: int | None) -> int | None:
    """The column of the texts; None where there is none but of classes."""
    others = {name: place for place, name in enumerate(head) if place != images}
    is_table_of_classes = bool(set(others) & set(_OF_CLASSES))
    names = TEXT_COLUMNS if is_table_of_classes else (*TEXT_COLUMNS, *_PERHAPS_TEXT)
    return next((others[name] for name in names if name in others), None)


def _cells(line: str, separator: str, most: int) -> list[str]:
    """The cells of a line; of one separated by tabs or blanks ``most`` cuts, all where it is -1."""
    if separator in ("\t", " "):
        return line.split(separator, most)
    return next(csv.reader(io.StringIO(line), delimiter=separator))


def text_boxes_of(folder: Path, labels: Path | None) -> BoxListing:
    """Upright boxes around words: ``image<TAB>JSON`` (PaddleOCR), or ``gt_IMAGE.txt`` with eight coordinates (ICDAR).

    Illegible text (``###``) is left out.

    Raises:
        CalibrationDataError: a line is of another form, or no image of ``folder`` is named.
    """
    is_file = labels is not None and labels.is_file()
    listed = _paddle(folder, Path(str(labels))) if is_file else _icdar(folder, labels or folder)
    if not listed:
        raise CalibrationDataError(f"{labels or folder}: names no image of {folder}")
    return BoxListing(listed)


def _paddle(folder: Path, file: Path) -> list[tuple[Path, tuple[LabelledBox, ...]]]:
    there, listed = NamedImages(folder), []
    for number, line in enumerate(read_label_text(file).splitlines(), 1):
        if not line.strip():
            continue
        name, _, content = line.partition("\t")
        try:
            words = json.loads(content)
            boxes = tuple(_around(word["points"]) for word in words if word.get("transcription", "") not in UNREADABLE)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CalibrationDataError(
                f"{file}:{number}: {line[:80]!r}: expected image<TAB>JSON, a list of transcription and points"
            ) from error
        path = there.find(name.strip())
        if path is not None:
            listed.append((path, boxes))
    return listed


def _icdar(folder: Path, place: Path) -> list[tuple[Path, tuple[LabelledBox, ...]]]:
    listed = []
    for path in samples_in(folder):
        names = (f"gt_{path.stem}.txt", f"{path.stem}.txt")
        file = next((place / name for name in names if (place / name).is_file()), None)
        if file is not None:
            listed.append((path, tuple(_icdar_boxes(file))))
    return listed


def _icdar_boxes(file: Path) -> Iterator[LabelledBox]:
    for number, line in enumerate(read_label_text(file).splitlines(), 1):
        if not line.strip():
            continue
        cells = line.split(",", 8)
        if cells[-1].strip() in UNREADABLE:
            continue
        try:
            points = np.array([float(cell) for cell in cells[:8]]).reshape(4, 2).tolist()
        except ValueError as error:
            raise CalibrationDataError(
                f"{file}:{number}: {line[:80]!r}: expected x1,y1,x2,y2,x3,y3,x4,y4,text"
            ) from error
        yield _around(points)


def _around(points: Sequence[Any]) -> LabelledBox:
    """The upright box around a polygon.

    Raises:
        ValueError: the points are not a polygon.
    """
    corners = np.array(points, np.float64)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise ValueError(f"{points!r:.80}: no polygon")
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return LabelledBox(0, float(left), float(top), float(right), float(bottom))
