"""What a folder of images holds, and where its labels are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CalibrationDataError
from harness.datasets.annotations import TABLES, Annotations, LabelFormat, class_level, read_annotations
from harness.datasets.box_annotations import OTHER_TEXTS
from harness.datasets.label_files import instead_of_images, pictures, samples_in
from harness.datasets.mask_annotations import mask_folder, mask_of
from harness.datasets.text_annotations import text_file


@dataclass(frozen=True)
class DataSource:
    """Images with labels, found.

    Attributes:
        folder: of the images.
        kind: what the labels are.
        labels: file or folder of the labels; None where they lie among the images, or there are none.
        annotations: what was read.
        reason: why the labels are taken for this.
        column: headline of the labels or texts of a table, where the user names it.
    """

    folder: Path
    kind: LabelFormat
    labels: Path | None
    annotations: Annotations
    reason: str
    column: str = ""


def find_source(folder: Path, labels: Path | None = None, metric: str = "", column: str = "") -> DataSource:
    """The images of ``folder``, and labels in ``labels`` or, where that is None, among the images.

    Args:
        folder: of the images.
        labels: file or folder; None to look for them.
        metric: that the network is likely scored by: a table holds texts for one that reads, boxes around words for
            one that finds text.
        column: headline of the labels or texts of a table; empty to look for it.

    Raises:
        CalibrationDataError: there are no images, or the labels are of no known form or wrong.
    """
    folder = folder.resolve()
    kind, place, reason = (
        _given(folder, labels.resolve(), metric) if labels is not None else _among(folder, metric, column)
    )
    if column and kind not in TABLES:
        raise CalibrationDataError(
            f"--label-column {column}: there is no table of labels ({reason}); give it: --labels FILE"
        )
    return DataSource(folder, kind, place, read_annotations(kind, folder, place, column), reason, column)


def _given(folder: Path, labels: Path, metric: str) -> tuple[LabelFormat, Path, str]:
    if metric in _OF_TEXT and (labels.is_file() or metric == "hmean"):
        if metric == "hmean" and _in_files(labels) is LabelFormat.VOC:
            return LabelFormat.VOC, labels, f"{labels.name} holds {_FILES[LabelFormat.VOC]}"
        if labels.suffix.lower() != ".json":
            return _OF_TEXT[metric], labels, f"{labels.name} holds {_TEXTS[_OF_TEXT[metric]]}"
    if labels.is_file() and labels.suffix.lower() in (".csv", ".tsv", ".txt"):
        return LabelFormat.CSV, labels, f"{labels.name} is a table"
    if labels.is_file() and labels.suffix.lower() == ".json":
        return LabelFormat.COCO, labels, f"{labels.name}, COCO's format"
    kind = _in_files(labels) if labels.is_dir() else None
    if kind is not None:
        return kind, labels, f"{labels.name} holds {_FILES[kind]}"
    if labels.is_dir() and any(mask_of(path, folder, labels) for path in samples_in(folder, labels)[:_TRIED]):
        return LabelFormat.MASKS, labels, f"{labels.name} holds a mask per image"
    raise CalibrationDataError(
        f"{labels}: expected a table (.csv, .tsv, .txt) of images and classes or texts, a JSON file in COCO's format, "
        "or a folder of YOLO's text files, PASCAL VOC's XML files, or masks named as the images"
    )


_TRIED = 50
"""Images that a mask is looked for."""
_OF_TEXT = {
    "edit_similarity": LabelFormat.TEXT,
    "word_accuracy": LabelFormat.TEXT,
    "hmean": LabelFormat.TEXT_BOXES,
}
"""Labels of networks that read or find text, by their metric."""
_TEXTS = {LabelFormat.TEXT: "the text of each image", LabelFormat.TEXT_BOXES: "the words on each page"}


_FILES = {LabelFormat.VOC: "an XML file per image (PASCAL VOC)", LabelFormat.YOLO: "a text file per image (YOLO)"}


def _in_files(folder: Path, stems: Collection[str] | None = None) -> LabelFormat | None:
    """The form of files of labels, one per image, in ``folder`` and below; texts are named as one of ``stems``."""
    for suffix, kind in ((".xml", LabelFormat.VOC), (".txt", LabelFormat.YOLO)):
        for path in (path for path in folder.rglob("*") if path.suffix.lower() == suffix):
            is_named = path.name not in OTHER_TEXTS if stems is None else path.stem in stems
            if is_named or kind is LabelFormat.VOC:
                return kind
    return None


def _among(folder: Path, metric: str, column: str) -> tuple[LabelFormat, Path | None, str]:
    texts = _texts_among(folder, metric, column)
    if texts is not None:
        return texts
    if (folder / "labels.csv").is_file():
        return LabelFormat.CSV, folder / "labels.csv", "labels.csv lies among the images"
    beside = instead_of_images(folder, "annotations")
    near = (folder / "annotations", folder.parent / "annotations", beside, beside and beside.parent, folder)
    annotations = [path for path in near if path is not None and path.is_dir()]
    files = [path for place in annotations for path in sorted(place.glob("*.json")) if _is_coco(path, folder)]
    if files:
        return LabelFormat.COCO, files[0], f"{files[0].name} is in COCO's format and names these images"
    found = pictures(folder)
    stems = {path.stem for path in found}
    places = [folder, folder.parent / "Annotations", instead_of_images(folder, "labels")]
    for place in places:
        kind = _in_files(place, stems) if place is not None and place.is_dir() else None
        if kind is not None:
            return kind, None if place == folder else place, f"{place.name if place else ''} holds {_FILES[kind]}"
    masks = mask_folder(folder)
    if masks is not None:
        return LabelFormat.MASKS, masks, f"{masks.name} holds a mask per image"
    paths = [path.relative_to(folder).parts for path in found]
    level = class_level(paths)
    tops = {parts[level] for parts in paths}
    loose = ["/".join(parts) for parts in paths if len(parts) <= level + 1]
    if found and len(tops) > 1 and not loose:
        return LabelFormat.CLASS_FOLDERS, None, f"{len(tops)} folders of images, taken for classes"
    if len(tops) > len(loose) + 1:
        why = f"{len(tops) - len(loose)} folders would be classes, but {len(loose)} image(s) lie in none"
        return LabelFormat.NONE, None, f"no labels: {why}, such as {loose[0]}"
    return LabelFormat.NONE, None, "no labels among the images"


def _texts_among(folder: Path, metric: str, column: str) -> tuple[LabelFormat, Path | None, str] | None:
    """Texts, or boxes around words, for a network that reads or finds text; None where there are none."""
    if metric not in _OF_TEXT:
        return None
    kind = _OF_TEXT[metric]
    if kind is LabelFormat.TEXT:
        file = text_file(folder, column)
        return None if file is None else (kind, file, f"{file.name} holds {_TEXTS[kind]}")
    files = [place / name for place in (folder, folder.parent) for name in ("Label.txt", "label.txt")]
    places = [*(file for file in files if file.is_file()), folder, folder.parent / "gt", folder.parent / "labels"]
    for place in places:
        try:
            read_annotations(kind, folder, place)
        except CalibrationDataError:
            continue
        return kind, place, f"{place.name} holds {_TEXTS[kind]}"
    return None


def _is_coco(file: Path, folder: Path) -> bool:
    """Whether ``file`` holds boxes of images of ``folder``."""
    try:
        read_annotations(LabelFormat.COCO, folder, file)
    except CalibrationDataError:
        return False
    return True
