"""Data sets of the user's own files, transformers, and models from packages."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError, ConfigError, MissingError, ModelError, PtqlabError
from harness.datasets.files import ArrayFolder, Coco, ImageFolder
from harness.datasets.text_lines import ALPHABET, TextLines
from harness.datasets.text_pages import TextPages
from harness.datasets.transformers import ReadMode, apply, parse_chain, read_image, to_uint8
from harness.metrics.detection import box_iou
from harness.strict_yaml import parse
from harness.zoo.model_sources import PackageSource, package_model

MODES = list(ReadMode)


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    pytest.importorskip("skimage", reason="the extra images is not installed")


def picture(path: Path, height: int = 40, width: int = 60, seed: int = 0) -> np.ndarray[Any, Any]:
    """A smooth image, saved without loss; the array."""
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([4 * rows, 3 * columns, np.full_like(rows, 10 * seed)], axis=2).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path)
    return image


def open_with(adapter: Any, **options: Any) -> Any:
    return adapter(parse(options, adapter.Options, "options"))


@pytest.mark.parametrize("mode", MODES)
def test_the_guides_chain_gives_bgr_channels_first(tmp_path: Path, mode: ReadMode) -> None:
    image = picture(tmp_path / "a.png", 40, 60)
    steps = [
        {"ShortSideResizeTransformer": {"short_size": 40}},
        {"CenterCropTransformer": {"crop_size": 32}},
        "HWC2CHW",
    ]
    if mode is ReadMode.SKIMAGE:
        steps += ["RGB2BGRTransformer", {"ScaleTransformer": {"scale_value": 255}}]
    found = to_uint8(apply(parse_chain(steps), read_image(tmp_path / "a.png", mode), mode))
    expected = image[4:36, 14:46, ::-1].transpose(2, 0, 1)
    np.testing.assert_array_equal(found, expected)


def test_both_modes_resize_alike_but_for_rounding(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 41, 60)
    chain = parse_chain([{"Resize": {"target_size": [30, 50]}}])
    opencv = apply(chain, read_image(tmp_path / "a.png", ReadMode.OPENCV), ReadMode.OPENCV)
    skimage = apply(chain, read_image(tmp_path / "a.png", ReadMode.SKIMAGE), ReadMode.SKIMAGE)
    np.testing.assert_allclose(skimage[..., ::-1] * 255, opencv, atol=1)


def test_pad_resize_keeps_proportions(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 20, 40)
    chain = parse_chain([{"PadResize": {"target_size": [40, 40], "pad_value": 7}}])
    found = apply(chain, read_image(tmp_path / "a.png", ReadMode.OPENCV), ReadMode.OPENCV)
    assert (found[:10] == 7).all()
    assert (found[30:] == 7).all()
    assert not (found[10:30] == 7).all(axis=2).any()


def test_mean_follows_the_layout() -> None:
    image = np.ones((4, 5, 3), np.float32)
    last = apply(parse_chain([{"Mean": {"means": [1, 2, 3], "data_format": "HWC"}}]), image, ReadMode.OPENCV)
    first = apply(parse_chain(["HWC2CHW", {"Mean": {"means": [1, 2, 3]}}, "CHW2HWC"]), image, ReadMode.OPENCV)
    np.testing.assert_array_equal(last, first)
    np.testing.assert_array_equal(last[0, 0], [0, -1, -2])


@pytest.mark.parametrize(
    ("steps", "message"),
    [(["HWC2CWH"], "did you mean 'HWC2CHW'"), ([{"Resize": {"size": 3}}], r"transformers\.0\.Resize.*'target_size'")],
)
def test_a_wrong_step_is_named(steps: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_chain(steps)


def test_image_folder_numbers_classes_by_name(tmp_path: Path) -> None:
    for split in ("calib", "val"):
        for label in ("b_dog", "a_cat"):
            picture(tmp_path / split / label / "1.png", seed=len(label))
    options = {"folder": tmp_path, "folders": {"calibration": "calib", "evaluation": "val"}, "height": 32, "width": 32}
    steps = [{"ShortSideResize": {"short_size": 40}}, {"CenterCrop": {"crop_size": 32}}]
    data = open_with(ImageFolder, **options, transformers=steps)
    assert data.split("evaluation").targets().tolist() == [0, 1]
    assert data.split("evaluation").images().shape == (2, 32, 32, 3)
    assert open_with(ImageFolder, **options, transformers=steps).digest == data.digest
    assert open_with(ImageFolder, **options, transformers=steps, read_mode="skimage").digest != data.digest
    with pytest.raises(CalibrationDataError, match=r"becomes \(40, 60, 3\), expected \(32, 32, 3\)"):
        open_with(ImageFolder, **options).split("evaluation").images()


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_arrays_come_from_npy_and_raw_files(tmp_path: Path, layout: str) -> None:
    images = np.random.RandomState(0).randint(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    stored = images if layout == "HWC" else images.transpose(0, 3, 1, 2)
    folder = tmp_path / "val"
    folder.mkdir()
    np.save(folder / "0.npy", stored[:1])
    stored[1].tofile(folder / "1.bin")
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), ("0.npy", 1), ("1.bin", 0)])
    options = {"folder": tmp_path, "folders": {"evaluation": "val"}, "classes": 2, "layout": layout}
    data = open_with(ArrayFolder, **options, height=4, width=5)
    np.testing.assert_array_equal(data.split("evaluation").images(), images)
    assert data.split("evaluation").targets().tolist() == [1, 0]
    with pytest.raises(CalibrationDataError, match="expected uint8 of shape"):
        open_with(ArrayFolder, **options, height=4, width=6).split("evaluation").images()


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
        Coco, folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=40, width=40, fit=fit
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
    with pytest.raises(CalibrationDataError, match="not in COCO's format: KeyError 'categories'"):
        open_with(Coco, folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=4, width=4)


def test_files_may_not_leave_their_folder(coco: Path) -> None:
    content = json.loads((coco / "val.json").read_text())
    content["images"][0]["file_name"] = "../../secret.png"
    (coco / "val.json").write_text(json.dumps(content))
    with pytest.raises(CalibrationDataError, match="leaves the folder"):
        open_with(Coco, folder=coco, folders={"val": "val"}, annotations={"val": "val.json"}, height=4, width=4)


def test_text_lines_are_the_same_every_time_and_every_second_is_upside_down() -> None:
    lines = open_with(TextLines, evaluation=6).split("evaluation")
    again = open_with(TextLines, evaluation=6).split("evaluation")
    np.testing.assert_array_equal(lines.images(2, 4), again.images()[2:4])
    assert sorted(set(lines.targets().tolist())) == [0, 1]
    texts = open_with(TextLines, evaluation=3, target="text").split("evaluation").targets()
    assert all(4 <= len(text) <= 12 and set(text) <= set(ALPHABET) for text in texts)


def test_text_that_is_to_be_read_is_never_upside_down() -> None:
    read = open_with(TextLines, target="text").split("evaluation").images(0, 4)
    turned = open_with(TextLines).split("evaluation").images(0, 4)
    np.testing.assert_array_equal(read[::2], turned[::2])
    np.testing.assert_array_equal(read[1::2], turned[1::2, ::-1, ::-1])


def test_pages_of_text_have_ink_in_their_boxes_only() -> None:
    pages = open_with(TextPages, evaluation=8)
    split, again = pages.split("evaluation"), open_with(TextPages).split("evaluation")
    np.testing.assert_array_equal(split.images(3, 5), again.images()[3:5])
    for image, target in zip(split.images(), split.targets(), strict=True):
        dark = image.max(axis=2) < 120
        assert 1 <= len(target.boxes) <= 6
        assert not dark[target.mask == 0].any()
        for left, top, right, bottom in target.boxes.astype(int):
            assert dark[top:bottom, left:right].mean() > 0.05
        apart = [box_iou(target.boxes[:1] + np.float32([-4, -4, 4, 4]), target.boxes[1:]).max(initial=0)]
        assert max(apart) == 0
    assert open_with(TextPages, seed=1).digest != pages.digest


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ({"distribution": "no-such-thing", "file": "a.onnx"}, MissingError, "pip install no-such-thing"),
        ({"distribution": "numpy", "file": "numpy/a.onnx"}, ModelError, "numpy has no file numpy/a.onnx"),
    ],
)
def test_a_package_that_lacks_the_model_is_named(
    source: dict[str, str], error: type[PtqlabError], message: str
) -> None:
    with pytest.raises(error, match=message):
        package_model(PackageSource(**source))


def test_a_file_of_an_installed_package_is_found() -> None:
    assert package_model(PackageSource(distribution="numpy", file="numpy/__init__.py")).is_file()
