"""Folders of images per class and of arrays."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import CalibrationDataError
from harness.datasets.files import FolderOptions, as_rgb, portable
from harness.terms import ReadMode
from tests.harness.datasets.helpers import open_with, picture


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("cv2", reason="the extra images is not installed")
    pytest.importorskip("skimage", reason="the extra images is not installed")


def test_image_folder_numbers_classes_by_name(tmp_path: Path) -> None:
    for split in ("calib", "val"):
        for label in ("b_dog", "a_cat"):
            picture(tmp_path / split / label / "1.png", seed=len(label))
    options = {"folder": tmp_path, "folders": {"calibration": "calib", "evaluation": "val"}, "height": 32, "width": 32}
    steps = [{"ShortSideResize": {"short_size": 40}}, {"CenterCrop": {"crop_size": 32}}]
    data = open_with("image_folder", **options, transformers=steps)
    assert data.split("evaluation").targets().tolist() == [0, 1]
    assert data.split("evaluation").images().shape == (2, 32, 32, 3)
    assert open_with("image_folder", **options, transformers=steps).digest == data.digest
    assert open_with("image_folder", **options, transformers=steps, read_mode="skimage").digest != data.digest
    with pytest.raises(CalibrationDataError, match=r"has shape \(40, 60, 3\), expected \(32, 32, 3\)"):
        open_with("image_folder", **options).split("evaluation").images()


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
    data = open_with("array_folder", **options, height=4, width=5)
    np.testing.assert_array_equal(data.split("evaluation").images(), images)
    assert data.split("evaluation").targets().tolist() == [1, 0]
    with pytest.raises(CalibrationDataError, match="expected uint8 of shape"):
        open_with("array_folder", **options, height=4, width=6).split("evaluation").images()


def test_classes_of_all_splits_are_numbered_together(tmp_path: Path) -> None:
    for place in ("calib/dog", "val/cat", "val/dog", "val/emu"):
        picture(tmp_path / place / "1.PNG", 4, 4)
    (tmp_path / "val/cat/notes.txt").write_text("no picture")
    picture(tmp_path / "val/cat/deeper/2.png", 4, 4)
    picture(tmp_path / "val/0.png", 4, 4)
    data = open_with("image_folder", folder=tmp_path, folders={"c": "calib", "v": "val"}, height=4, width=4)
    assert data.split("c").targets().tolist() == [1]
    assert data.split("v").targets().tolist() == [0, 1, 2]


def test_absent_folders_and_classes(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    options = {"folders": {"evaluation": "val"}, "height": 4, "width": 4}
    with pytest.raises(CalibrationDataError, match="val: expected image files, or a sub-folder"):
        open_with("image_folder", folder=tmp_path, **options)
    with pytest.raises(CalibrationDataError, match=r"no folder .*nowhere: unpack .* PTQLAB_DATA"):
        open_with("image_folder", folder=tmp_path / "nowhere", **options)


def test_where_the_folder_lies_is_no_part_of_the_data(tmp_path: Path) -> None:
    digests = set()
    for place in ("here/set", "there/set", "there/other"):
        for name in ("a", "b"):
            picture(tmp_path / place / "val" / name / "1.png", 4, 4)
        options = {"folder": tmp_path / place, "folders": {"v": "val"}, "height": 4, "width": 4}
        digests.add(open_with("image_folder", **options).digest)
    assert len(digests) == 2
    assert portable(FolderOptions(folder=Path("/a/b/set"), folders={"v": "val"})).folder == Path("set")


@pytest.mark.parametrize(("mode", "expected"), [(ReadMode.OPENCV, [30, 2, 1]), (ReadMode.SKIMAGE, [255, 255, 255])])
def test_both_modes_become_rgb_of_bytes(mode: ReadMode, expected: list[int]) -> None:
    """``opencv`` gives BGR 0..255, ``skimage`` RGB 0..1, here beyond it."""
    image = np.array([[[1.4, 1.6, 30.0]]], np.float32)
    assert as_rgb(image, mode)[0, 0].tolist() == expected


@pytest.mark.parametrize(
    ("shape", "allowed"),
    [((3, 4, 5), True), ((1, 3, 4, 5), True), ((60,), True), ((4, 5, 3), False), ((3, 5, 4), False), ((2, 30), False)],
)
def test_a_npy_file_has_the_shape_of_an_image(tmp_path: Path, shape: tuple[int, ...], allowed: bool) -> None:
    data = array_folder(tmp_path, np.zeros(shape, np.uint8))
    if allowed:
        assert data.images().shape == (1, 4, 5, 3)
    else:
        with pytest.raises(CalibrationDataError, match=r"holds uint8 of shape .*expected uint8 of shape \(3, 4, 5\)"):
            data.images()


def test_arrays_are_bytes(tmp_path: Path) -> None:
    with pytest.raises(CalibrationDataError, match=r"a\.npy: holds int8 of shape \(3, 4, 5\)"):
        array_folder(tmp_path, np.zeros((3, 4, 5), np.int8)).images()


def test_what_is_no_array_is_refused(tmp_path: Path) -> None:
    data = array_folder(tmp_path, np.zeros((3, 4, 5), np.uint8))
    with (tmp_path / "val/a.npy").open("wb") as file:
        np.savez(file, a=np.zeros((3, 4, 5), np.uint8))
    with pytest.raises(CalibrationDataError, match=r"a\.npy: cannot be read as an array: not a readable \.npy file"):
        data.images()


def array_folder(root: Path, array: np.ndarray) -> Any:
    """A split of one file, 4 x 5 pixels, channels first."""
    (root / "val").mkdir()
    np.save(root / "val/a.npy", array)
    (root / "val/labels.csv").write_text("file,label\na.npy,1\n")
    options = {"folder": root, "folders": {"v": "val"}, "height": 4, "width": 5, "classes": 2}
    return open_with("array_folder", **options).split("v")
