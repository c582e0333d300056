"""Annotations in COCO's format: boxes and masks on the resized image, checks of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import CalibrationDataError
from harness.datasets.coco import Coco, CocoOptions
from tests.harness.datasets.helpers import open_with, picture


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    pytest.importorskip("skimage", reason="the extra images is not installed")


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    picture(tmp_path / "val" / "a.png", 40, 80)
    content = {
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        "images": [{"id": 1, "file_name": "a.png", "height": 40, "width": 80}],
        "annotations": [
            {"image_id": 1, "category_id": 7, "bbox": [8, 4, 16, 8], "segmentation": [[8, 4, 24, 4, 24, 12, 8, 12]]},
            {"image_id": 1, "category_id": 3, "bbox": [0, 0, 80, 40], "iscrowd": 1},
        ],
    }
    (tmp_path / "val.json").write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize(
    ("fit", "box"), [("stretch", [4, 4, 12, 12]), ("pad", [4, 12, 12, 16])], ids=["stretch", "pad"]
)
def test_coco_boxes_and_masks_follow_the_image(coco: Path, fit: str, box: list[int]) -> None:
    data = open_with(
        "coco", folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=40, width=40, fit=fit
    )
    (target,) = data.split("val").targets()
    assert target.boxes.tolist() == [box]
    assert target.classes.tolist() == [1]  # ids in order: cat, dog
    rows, columns = np.nonzero(target.mask)
    assert set(target.mask[rows, columns]) == {2}
    assert (columns.min(), rows.min()) == (box[0], box[1])
    image = data.split("val").images()[0]
    gray = (image[:8] == 127).all()
    assert gray == (fit == "pad")


def test_coco_that_is_none_is_refused(coco: Path) -> None:
    (coco / "val.json").write_text('{"images": []}')
    with pytest.raises(CalibrationDataError, match="not in COCO format: categories: Field required"):
        open_with("coco", folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=4, width=4)


def test_files_may_not_leave_their_folder(coco: Path) -> None:
    content = json.loads((coco / "val.json").read_text())
    content["images"][0]["file_name"] = "../../secret.png"
    (coco / "val.json").write_text(json.dumps(content))
    with pytest.raises(CalibrationDataError, match="lies outside the folder"):
        open_with("coco", folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=4, width=4)


def opened(folder: Path, **options: Any) -> Coco:
    return Coco(
        CocoOptions.model_validate(
            {"folder": folder, "folders": {"val": "val"}, "annotations": {"val": "val.json"}, **options}
        )
    )


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / "val.json").read_text())
    edit(content)
    (folder / "val.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["images"][0].update(height=0), r"images\.0\.height: Input should be greater than 0"),
        (lambda c: c["images"][0].update(width=1e400), r"images\.0\.width"),
        (lambda c: c["images"][0].update(id=[1]), r"images\.0\.id"),
        (lambda c: c["images"].append(c["images"][0]), "image id 1 occurs twice"),
        (lambda c: c["categories"].append({"id": 7}), "category id 7 occurs twice"),
        (lambda c: c.update(annotations=["a"]), r"annotations\.0"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3]), r"annotations\.0\.bbox"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3, float("nan")]), r"bbox\.3: Input should be a finite"),
        (lambda c: c["annotations"][0].update(segmentation=[[1, 2, 3, 4, 5, 6, 7]]), "7 numbers do not form pairs"),
        (lambda c: c["annotations"][0].update(segmentation=[[float("inf")] * 6]), "finite"),
        (lambda c: c["annotations"][0].update(image_id=2), "annotation of image 2, category 7"),
        (lambda c: c["annotations"][0].update(category_id=8), "annotation of image 1, category 8"),
        (lambda c: c["images"][0].update(file_name="a\0.png"), "null byte"),
    ],
)
def test_files_that_are_wrong(coco: Path, edit: Callable[[dict[str, Any]], object], message: str) -> None:
    change(coco, edit)
    with pytest.raises(CalibrationDataError, match=rf"val\.json: is not in COCO format: .*{message}"):
        opened(coco, height=4, width=4)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", "3"])
def test_files_that_are_no_annotations(coco: Path, text: str) -> None:
    (coco / "val.json").write_text(text)
    with pytest.raises(CalibrationDataError, match=r"val\.json"):
        opened(coco, height=4, width=4)


@pytest.mark.parametrize(("others", "allowed"), [(254, True), (255, False)])
def test_a_mask_holds_255_classes(coco: Path, others: int, allowed: bool) -> None:
    change(coco, lambda c: c.update(categories=[*({"id": -1 - i} for i in range(others)), {"id": 7}]))
    if allowed:
        (target,) = opened(coco, height=40, width=80).split("val").targets()
        assert set(np.unique(target.mask)) == {0, 255}
    else:
        with pytest.raises(CalibrationDataError, match=r"category 7 is class 255: a mask holds 0\.\.254"):
            opened(coco, height=4, width=4)


def test_more_classes_are_fine_where_there_are_boxes_alone(coco: Path) -> None:
    change(coco, lambda c: c.update(categories=[*({"id": -1 - i} for i in range(300)), {"id": 7}]))
    change(coco, lambda c: c["annotations"][0].pop("segmentation"))
    (target,) = opened(coco, height=40, width=80).split("val").targets()
    assert target.classes.tolist() == [300]


def test_images_come_in_the_order_of_their_ids_and_stay_without_objects(coco: Path) -> None:
    picture(coco / "val" / "0.png", 40, 80)
    change(coco, lambda c: c["images"].append({"id": 0, "file_name": "0.png", "height": 40, "width": 80}))
    split = opened(coco, height=4, width=8).split("val")
    assert [len(target.boxes) for target in split.targets()] == [0, 1]


def test_later_objects_lie_over_earlier_ones_and_boxes_end_at_the_border(coco: Path) -> None:
    over = {"image_id": 1, "category_id": 3, "bbox": [70, 30, 20, 20], "segmentation": [[8, 4, 24, 4, 24, 12], [1, 2]]}
    change(coco, lambda c: c["annotations"].append(over))
    (target,) = opened(coco, height=40, width=80).split("val").targets()
    assert target.boxes[1].tolist() == [70, 30, 80, 40]
    assert target.mask[5, 20] == 1  # within the triangle of class 0
    assert target.mask[11, 9] == 2  # left of it, class 1


def test_run_length_codes_draw_nothing(coco: Path) -> None:
    change(coco, lambda c: c["annotations"][0].update(segmentation={"counts": [1, 2], "size": [40, 80]}))
    (target,) = opened(coco, height=40, width=80).split("val").targets()
    assert not target.mask.any()
    assert len(target.boxes) == 1
