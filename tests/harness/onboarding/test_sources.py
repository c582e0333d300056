"""Where the labels of a folder are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import CalibrationDataError
from harness.datasets.annotations import LabelFormat
from harness.onboarding.sources import find_source
from tests.harness.datasets.test_annotations import picture
from tests.harness.datasets.test_box_annotations import COCO, VOC


def test_class_folders_tables_and_nothing(tmp_path: Path) -> None:
    for name in ("plain/a.png", "folders/x/a.png", "folders/y/b.png", "table/a.png", "one/x/a.png"):
        picture(tmp_path / name)
    (tmp_path / "table/labels.csv").write_text("file,label\na.png,0\n")
    kinds = {name: find_source(tmp_path / name).kind for name in ("plain", "folders", "table", "one")}
    assert kinds == {
        "plain": LabelFormat.NONE,
        "folders": LabelFormat.CLASS_FOLDERS,
        "table": LabelFormat.CSV,
        "one": LabelFormat.NONE,
    }
    given = find_source(tmp_path / "plain", tmp_path / "table/labels.csv")
    assert (given.kind, given.annotations.images[0].label) == (LabelFormat.CSV, 0)


def test_labels_of_no_known_form(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.bin").write_bytes(b"")
    with pytest.raises(CalibrationDataError, match=r"labels.bin: expected a table"):
        find_source(tmp_path, tmp_path / "labels.bin")


def test_boxes_where_tools_leave_them(tmp_path: Path) -> None:
    for name in ("yolo/images/train/a.png", "voc/JPEGImages/a.png", "coco/val/a.png", "beside/a.png"):
        picture(tmp_path / name)
    for name, text in {
        "yolo/labels/train/a.txt": "0 0.5 0.5 1 1",
        "beside/a.txt": "0 0.5 0.5 1 1",
        "voc/Annotations/a.xml": VOC,
        "coco/annotations/other.json": "{}",
        "coco/annotations/val.json": COCO,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {
        name: find_source(tmp_path / name) for name in ("yolo/images/train", "beside", "voc/JPEGImages", "coco/val")
    }
    assert [source.kind.value for source in found.values()] == ["yolo", "yolo", "voc", "coco"]
    assert all(len(source.annotations.images[0].boxes or ()) == 1 for source in found.values())
    given = find_source(tmp_path / "coco/val", tmp_path / "yolo/labels/train")
    assert given.kind is LabelFormat.YOLO
    assert find_source(tmp_path / "beside", tmp_path / "coco/annotations/val.json").kind is LabelFormat.COCO
