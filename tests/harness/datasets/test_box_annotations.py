"""Boxes as COCO, YOLO and PASCAL VOC have them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.errors import CalibrationDataError
from harness.datasets.annotations import LabelFormat, read_annotations
from harness.datasets.box_annotations import LabelledBox, coco_boxes, voc_boxes, yolo_boxes
from harness.datasets.own_images import OwnImages, OwnImagesOptions
from tests.harness.datasets.helpers import picture

COCO = json.dumps(
    {
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        "images": [
            {"id": 5, "file_name": "below/a.png", "height": 40, "width": 60},
            {"id": 9, "file_name": "gone.png", "height": 40, "width": 60},
        ],
        "annotations": [
            {"image_id": 5, "category_id": 7, "bbox": [30, 10, 15, 20]},
            {"image_id": 5, "category_id": 3, "bbox": [0, 0, 9, 9], "iscrowd": 1, "segmentation": {"counts": "x"}},
        ],
    }
)
VOC = (
    "<annotation><object><name>dog</name><bndbox><xmin>31</xmin><ymin>11</ymin><xmax>45</xmax><ymax>30</ymax></bndbox>"
    "</object></annotation>"
)
YOLO = "1 0.625 0.5 0.25 0.5\n"
"""The same box, 30..45 by 10..30 of 60x40 pixels, three times."""


def test_the_same_box_in_three_forms(tmp_path: Path) -> None:
    picture(tmp_path / "images/a.png", 40, 60)
    for name, text in (("a.xml", VOC), ("a.txt", YOLO), ("coco.json", COCO), ("classes.txt", "cat\ndog\n")):
        (tmp_path / name).write_text(text)
    coco = coco_boxes(tmp_path / "images", tmp_path / "coco.json")
    yolo = yolo_boxes(tmp_path / "images", tmp_path)
    voc = voc_boxes(tmp_path / "images", tmp_path)
    assert (coco.classes, yolo.classes, voc.classes) == (("cat", "dog"), ("cat", "dog"), ("dog",))
    for listing in (coco, yolo, voc):
        ((path, (box,)),) = listing.images
        assert path.name == "a.png"
        np.testing.assert_allclose(box.in_pixels(40, 60), [[30, 10], [45, 30]])
    assert [listing.images[0][1][0].label for listing in (coco, yolo, voc)] == [1, 1, 0]


@pytest.mark.parametrize(("fit", "wanted"), [("stretch", [16, 8, 24, 24]), ("pad", [16, 11, 24, 21])])
def test_boxes_lie_where_the_image_is_fitted(fit: str, wanted: list[float], tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 40, 60, seed=1)
    picture(tmp_path / "b.png", 40, 60, seed=2)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(YOLO)
    given = {"folder": tmp_path, "format": "yolo", "height": 32, "width": 32, "calibration": 1, "evaluation": 1}
    dataset = OwnImages(OwnImagesOptions.model_validate({**given, "fit": fit}))
    (scene,) = dataset.split("evaluation").targets()
    np.testing.assert_allclose(scene.boxes, [wanted], atol=0.7)  # type: ignore[union-attr]
    assert scene.classes.tolist() == [1]  # type: ignore[union-attr]
    before = dataset.digest
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.1 0.1\n")
    assert OwnImages(OwnImagesOptions.model_validate({**given, "fit": fit})).digest != before


def test_yolo_polygons_images_without_files_and_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        picture(tmp_path / "images" / f"{name}.png")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels/a.txt").write_text("2 0.1 0.2 0.5 0.3 0.4 0.9\n")
    (tmp_path / "data.yaml").write_text("names: {0: x, 1: y, 2: z}\n")
    found = yolo_boxes(tmp_path / "images", tmp_path / "labels")
    assert found.classes == ("x", "y", "z")
    assert found.remarks == ("1 image(s) without a text file are taken for images without objects",)
    assert [boxes for _, boxes in found.images] == [(LabelledBox(2, 0.1, 0.2, 0.5, 0.9, is_relative=True),), ()]


def test_files_of_labels_in_capitals_below_a_common_folder_and_without_an_image(tmp_path: Path) -> None:
    """The folders that Roboflow and Ultralytics write: ``train/images`` and ``train/labels``."""
    picture(tmp_path / "train/images/a.png")
    (tmp_path / "train/labels").mkdir()
    (tmp_path / "train/labels/a.TXT").write_text("1 0.5 0.5 1 1\n")
    (tmp_path / "train/labels/gone.txt").write_text("1 0.5 0.5 1 1\n")
    assert [len(boxes) for _, boxes in yolo_boxes(tmp_path, None).images] == [1]
    found = yolo_boxes(tmp_path / "train/images", tmp_path / "train/labels")
    assert (len(found.images[0][1]), found.remarks) == (1, ("1 text file(s) have no image",))


def test_images_of_one_name_in_two_folders_are_told_apart(tmp_path: Path) -> None:
    for name in ("a.png", "below/a.png"):
        picture(tmp_path / name)
    for name in ("a.png", "below/a.png"):
        (tmp_path / "c.json").write_text(COCO.replace("below/a.png", name))
        (found,) = coco_boxes(tmp_path, tmp_path / "c.json").images
        assert found[0] == tmp_path / name


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("a.txt", "0 0.5 0.5\n", LabelFormat.YOLO, "a.txt:1: '0 0.5 0.5': expected a class and four numbers"),
        ("a.txt", "x 0 0 1 1\n", LabelFormat.YOLO, "a.txt:1"),
        ("a.txt", "0 nan 0 1 1\n", LabelFormat.YOLO, "a.txt:1"),
        ("b.txt", "", LabelFormat.YOLO, "holds no text file with the name of an image"),
        ("a.xml", "<annotation>", LabelFormat.VOC, "a.xml: is not a PASCAL VOC annotation"),
        ("a.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", LabelFormat.VOC, "has declarations"),
        ("a.xml", VOC.replace("<xmin>31</xmin>", ""), LabelFormat.VOC, "is not a PASCAL VOC annotation"),
        ("a.xml", VOC.replace("dog", " "), LabelFormat.VOC, "an object has no name, or no box"),
        ("b.xml", VOC, LabelFormat.VOC, "holds no XML file with the name of an image"),
        ("c.json", "[]", LabelFormat.COCO, "c.json"),
        ("c.json", COCO.replace('"image_id": 5', '"image_id": 6'), LabelFormat.COCO, "an annotation of image 6"),
        ("c.json", COCO.replace("a.png", "b.png"), LabelFormat.COCO, "names 2 images, none of which is in"),
    ],
)
def test_wrong_files_are_named(name: str, text: str, kind: LabelFormat, message: str, tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / name).write_text(text)
    with pytest.raises(CalibrationDataError, match=message):
        read_annotations(kind, tmp_path, tmp_path / name if kind is LabelFormat.COCO else None)


def test_coco_needs_its_file(tmp_path: Path) -> None:
    with pytest.raises(CalibrationDataError, match="are a JSON file; give its name"):
        read_annotations(LabelFormat.COCO, tmp_path, None)
