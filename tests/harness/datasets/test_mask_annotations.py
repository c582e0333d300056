"""Masks beside images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.errors import CalibrationDataError
from harness.datasets.mask_annotations import classes_in, mask_folder, mask_listing, mask_of, read_mask, voc_palette
from tests.harness.datasets.test_annotations import picture

VALUES = np.array([[0, 1], [2, 255]], np.uint8)


def saved(path: Path, image: Image.Image) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("data/images/val/a.jpg", "data/masks/val/a.png"),
        ("VOC2012/JPEGImages/a.jpg", "VOC2012/SegmentationClass/a.png"),
        ("leftImg8bit/val/ulm/a_leftImg8bit.png", "gtFine/val/ulm/a_gtFine_labelTrainIds.png"),
        ("ade/images/training/a.jpg", "ade/annotations/training/a.png"),
        ("shots/a.JPG", "labels/a_mask.png"),
        ("été/images/ä b.png", "été/masks/ä b.png"),
    ],
)
def test_masks_are_found_where_data_sets_put_them(image: str, mask: str, tmp_path: Path) -> None:
    path, wanted = picture(tmp_path / image), saved(tmp_path / mask, Image.fromarray(VALUES))
    picture(path.with_stem("without"))
    place = mask_folder(path.parent)
    assert place is not None
    assert mask_of(path, path.parent, place) == wanted
    assert mask_listing(path.parent, None) == ([(path, wanted)], 1)


def test_a_palette_gray_levels_and_voc_colours_are_classes(tmp_path: Path) -> None:
    palette = Image.fromarray(VALUES)
    palette.putpalette(voc_palette().tobytes())
    colours = voc_palette()[VALUES]
    colours[1, 1] = (224, 224, 192)
    deep = Image.fromarray(VALUES.astype(np.uint16))
    for index, image in enumerate((Image.fromarray(VALUES), palette, Image.fromarray(colours), deep)):
        np.testing.assert_array_equal(read_mask(saved(tmp_path / f"{index}.png", image)), VALUES)
    np.testing.assert_array_equal(voc_palette()[[0, 1, 2, 15]], [[0, 0, 0], [128, 0, 0], [0, 128, 0], [192, 128, 128]])
    assert classes_in(iter([tmp_path / "0.png"])) == (0, 2)


def test_ids_of_cityscapes_become_the_classes_that_are_scored(tmp_path: Path) -> None:
    ids = Image.fromarray(np.array([[7, 8, 33], [0, 3, 26]], np.uint8))
    found = read_mask(saved(tmp_path / "a_gtFine_labelIds.png", ids))
    np.testing.assert_array_equal(found, [[0, 1, 18], [255, 255, 13]])


def test_what_is_no_mask_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"nothing")
    with pytest.raises(CalibrationDataError, match=r"bad.png: cannot be read as a mask"):
        read_mask(tmp_path / "bad.png")
    with pytest.raises(CalibrationDataError, match=r"holds the colour \(1, 2, 3\), which is none of PASCAL VOC's"):
        read_mask(saved(tmp_path / "c.png", Image.new("RGB", (2, 2), (1, 2, 3))))
    with pytest.raises(CalibrationDataError, match=r"values up to 300: expected a class 0\.\.254"):
        read_mask(saved(tmp_path / "d.png", Image.fromarray(np.full((2, 2), 300, np.uint16))))
    picture(tmp_path / "images/a.png")
    assert mask_folder(tmp_path / "images") is None
    with pytest.raises(CalibrationDataError, match="no folder of masks; expected one of masks"):
        mask_listing(tmp_path / "images", None)
    with pytest.raises(CalibrationDataError, match="holds no mask named as one of the 1 images"):
        mask_listing(tmp_path / "images", tmp_path)
