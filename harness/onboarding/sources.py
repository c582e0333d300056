"""What a folder of images holds, and where its labels are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import CalibrationDataError
from harness.datasets.annotations import Annotations, LabelFormat, pictures, read_annotations


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
    raise CalibrationDataError(f"{labels}: expected a table (.csv, .tsv, .txt) of images and classes")


def _among(folder: Path) -> tuple[LabelFormat, Path | None, str]:
    if (folder / "labels.csv").is_file():
        return LabelFormat.CSV, folder / "labels.csv", "labels.csv lies among the images"
    found = pictures(folder)
    tops = {path.relative_to(folder).parts[0] for path in found}
    if found and len(tops) > 1 and all(len(path.relative_to(folder).parts) > 1 for path in found):
        return LabelFormat.CLASS_FOLDERS, None, f"{len(tops)} folders of images, taken for classes"
    return LabelFormat.NONE, None, "no labels among the images"
