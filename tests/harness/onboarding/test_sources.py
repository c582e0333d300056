"""Where the labels of a folder are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError
from harness.datasets.annotations import LabelFormat
from harness.datasets.own_images import OwnImages, OwnImagesOptions
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


def small(path: Path, mode: str = "RGB", **given: Any) -> Path:
    """A noisy image of a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    photo = Image.fromarray(np.random.RandomState(len(path.name)).randint(0, 255, (20, 30, 3)).astype(np.uint8))
    image = photo.convert("L") if mode == "I;16" else photo.convert(mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    image.save(path, "JPEG" if path.suffix.lower() == ".jpg" else "PNG", **given)
    return path


def test_a_messy_folder_of_classes_is_read_as_it_is(tmp_path: Path) -> None:
    """Splits above the classes, names of any script, suffixes in capitals; gray, transparent, deep, turned images."""
    turned = Image.Exif()
    turned[0x0112] = 6
    small(tmp_path / "train/äpfel/ü 1.JPG")
    small(tmp_path / "train/zebra/gray.PNG", "L")
    small(tmp_path / "val/äpfel/clear.png", "RGBA")
    small(tmp_path / "val/zebra/deep.png", "I;16")
    small(tmp_path / "val/zebra/turned.jpg", exif=turned)
    for name in ("val/zebra/notes.txt", ".DS_Store", "train/Thumbs.db"):
        (tmp_path / name).write_text("0 0 0 0 0")
    found = find_source(tmp_path)
    assert (found.kind, found.annotations.classes) == (LabelFormat.CLASS_FOLDERS, ("zebra", "äpfel"))
    assert [image.label for image in found.annotations.images] == [0, 1, 0, 0, 1]  # train, then val, by name
    fields = {"folder": tmp_path, "format": found.kind, "height": 8, "width": 8, "calibration": 1, "evaluation": 4}
    images = OwnImages(OwnImagesOptions.model_validate({**fields, "fit": "stretch"})).split("evaluation").images()
    assert images.shape == (4, 8, 8, 3)
    assert images.std(axis=(1, 2, 3)).min() > 5


def test_one_image_outside_the_folders_of_classes_is_named(tmp_path: Path) -> None:
    for name in ("cat/a.png", "dog/b.png", "stray.png"):
        small(tmp_path / name)
    found = find_source(tmp_path)
    assert found.kind is LabelFormat.NONE
    assert found.reason == "no labels: 2 folders would be classes, but 1 image(s) lie in none, such as stray.png"


def test_images_without_labels_are_left_out_and_counted(tmp_path: Path) -> None:
    for name in "abc":
        small(tmp_path / f"images/val/{name}.jpg")
    listed = [{"id": i, "file_name": f"{name}.jpg", "height": 20, "width": 30} for i, name in enumerate(("a", "gone"))]
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations/instances_val.json").write_text(
        json.dumps({"categories": [{"id": 1}], "images": listed, "annotations": []})
    )
    found = find_source(tmp_path / "images/val")
    assert (found.kind, len(found.annotations.images)) == (LabelFormat.COCO, 1)
    assert found.annotations.remarks == (
        "2 image(s) without labels are left out",
        "1 image(s) that instances_val.json names are missing",
    )


def test_masks_and_texts_are_found(tmp_path: Path) -> None:
    small(tmp_path / "images/a.jpg")
    small(tmp_path / "images/b.jpg")
    small(tmp_path / "masks/a.png", "L")
    found = find_source(tmp_path / "images")
    assert (found.kind, found.annotations.remarks) == (LabelFormat.MASKS, ("1 image(s) without a mask are left out",))
    assert find_source(tmp_path / "images", tmp_path / "masks").kind is LabelFormat.MASKS
    (tmp_path / "rec_gt.txt").write_text("images/a.jpg\tword\nimages/c.jpg\tgone\n")
    read = find_source(tmp_path / "images", None, "edit_similarity")
    assert (read.kind, read.annotations.remarks) == (
        LabelFormat.TEXT,
        ("1 line(s) whose image is missing are left out",),
    )
    assert find_source(tmp_path / "images", tmp_path / "rec_gt.txt", "edit_similarity").kind is LabelFormat.TEXT
    (tmp_path / "Label.txt").write_text("images/a.jpg\t[]\n")
    assert find_source(tmp_path / "images", None, "hmean").kind is LabelFormat.TEXT_BOXES
