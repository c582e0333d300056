"""What a folder of images holds, and where its labels are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import CalibrationDataError
from harness.datasets.annotations import Annotations, LabelFormat, read_annotations
from harness.datasets.label_files import pictures


@dataclass(frozen=True)
class DataSource:
    """Images with labels, found.

    Attributes:
        folder: of the images.
        kind: what the labels are.
        labels: file or folder of the labels; None where they lie among the images, or there are none.
        annotations: what was read.
        reason: why the labels are taken for this.
    """

    folder: Path
    kind: LabelFormat
    labels: Path | None
    annotations: Annotations
    reason: str


def find_source(folder: Path, labels: Path | None = None) -> DataSource:
    """The images of ``folder``, and labels in ``labels`` or, where that is None, among the images.

    Raises:
        CalibrationDataError: there are no images, or the labels are of no known form or wrong.
    """
    folder = folder.resolve()
    kind, place, reason = _given(labels.resolve()) if labels is not None else _among(folder)
    return DataSource(folder, kind, place, read_annotations(kind, folder, place), reason)


def _given(labels: Path) -> tuple[LabelFormat, Path, str]:
    if labels.is_file() and labels.suffix.lower() in (".csv", ".tsv", ".txt"):
        return LabelFormat.CSV, labels, f"{labels.name} is a table"
    if labels.is_file() and labels.suffix.lower() == ".json":
        return LabelFormat.COCO, labels, f"{labels.name}, COCO's format"
    kind = _in_files(labels) if labels.is_dir() else None
    if kind is not None:
        return kind, labels, f"{labels.name} holds {_FILES[kind]}"
    raise CalibrationDataError(
        f"{labels}: expected a table (.csv, .tsv, .txt) of images and classes, a JSON file in COCO's format, or a "
        "folder of YOLO's text files or PASCAL VOC's XML files"
    )


_FILES = {LabelFormat.VOC: "an XML file per image (PASCAL VOC)", LabelFormat.YOLO: "a text file per image (YOLO)"}


def _in_files(folder: Path) -> LabelFormat | None:
    """The form of files of labels, one per image, in ``folder`` and below."""
    if next(folder.rglob("*.xml"), None) is not None:
        return LabelFormat.VOC
    named = (path for path in folder.rglob("*.txt") if path.name not in ("classes.txt", "labels.txt", "README.txt"))
    return LabelFormat.YOLO if next(named, None) is not None else None


def _among(folder: Path) -> tuple[LabelFormat, Path | None, str]:
    if (folder / "labels.csv").is_file():
        return LabelFormat.CSV, folder / "labels.csv", "labels.csv lies among the images"
    annotations = [path for path in (folder / "annotations", folder.parent / "annotations", folder) if path.is_dir()]
    files = [path for place in annotations for path in sorted(place.glob("*.json")) if _is_coco(path, folder)]
    if files:
        return LabelFormat.COCO, files[0], f"{files[0].name} is in COCO's format and names these images"
    places = [folder, folder.parent / "Annotations", _instead_of_images(folder)]
    for place in places:
        kind = _in_files(place) if place is not None and place.is_dir() else None
        if kind is not None:
            return kind, None if place == folder else place, f"{place.name if place else ''} holds {_FILES[kind]}"
    found = pictures(folder)
    tops = {path.relative_to(folder).parts[0] for path in found}
    if found and len(tops) > 1 and all(len(path.relative_to(folder).parts) > 1 for path in found):
        return LabelFormat.CLASS_FOLDERS, None, f"{len(tops)} folders of images, taken for classes"
    return LabelFormat.NONE, None, "no labels among the images"


def _instead_of_images(folder: Path) -> Path | None:
    """The folder that YOLO's tools look for labels in: the same path with ``labels`` for the last ``images``."""
    parts = list(folder.parts)
    if "images" not in parts:
        return None
    place = len(parts) - 1 - parts[::-1].index("images")
    return Path(*parts[:place], "labels", *parts[place + 1 :])


def _is_coco(file: Path, folder: Path) -> bool:
    """Whether ``file`` holds boxes of images of ``folder``."""
    try:
        read_annotations(LabelFormat.COCO, folder, file)
    except CalibrationDataError:
        return False
    return True
