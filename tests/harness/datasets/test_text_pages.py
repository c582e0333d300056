"""Pages of text: boxes around words that do not touch."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ConfigError
from harness.datasets.text_pages import _near
from harness.metrics.detection import box_iou
from tests.harness.datasets.helpers import open_with


def test_pages_of_text_have_ink_in_their_boxes_only() -> None:
    pages = open_with("text_pages", evaluation=8)
    split, again = pages.split("evaluation"), open_with("text_pages").split("evaluation")
    np.testing.assert_array_equal(split.images(3, 5), again.images()[3:5])
    for image, target in zip(split.images(), split.targets(), strict=True):
        dark = image.max(axis=2) < 120
        assert 1 <= len(target.boxes) <= 6
        assert not dark[target.mask == 0].any()
        for left, top, right, bottom in target.boxes.astype(int):
            assert dark[top:bottom, left:right].mean() > 0.05
        apart = [box_iou(target.boxes[:1] + np.float32([-4, -4, 4, 4]), target.boxes[1:]).max(initial=0)]
        assert max(apart) == 0
    assert open_with("text_pages", seed=1).digest != pages.digest


def test_evaluation_goes_on_where_calibration_ends() -> None:
    some = open_with("text_pages", calibration=5).split("evaluation").images(0, 2)
    np.testing.assert_array_equal(open_with("text_pages", calibration=4).split("evaluation").images(1, 3), some)


@pytest.mark.parametrize(
    ("left", "top", "near"),
    [(18, 0, False), (17.5, 0, True), (0, 18, False), (0, 17.5, True), (-18, 0, False), (-17.5, 0, True), (3, 3, True)],
)
def test_words_keep_eight_pixels_apart(left: float, top: float, near: bool) -> None:
    assert _near((left, top, left + 10, top + 10), (0, 0, 10, 10)) is near


def test_masks_are_the_boxes_and_all_words_are_of_one_class() -> None:
    for target in open_with("text_pages", words=3).split("evaluation").targets(0, 12):
        assert 1 <= len(target.boxes) <= 3
        assert target.classes.tolist() == [0] * len(target.boxes)
        expected = np.zeros((320, 320), np.uint8)
        for left, top, right, bottom in np.rint(target.boxes).astype(int):
            expected[top:bottom, left:right] = 1
        np.testing.assert_array_equal(target.mask, expected)


def test_every_number_of_words_occurs() -> None:
    targets = open_with("text_pages", words=3, smallest=8, largest=8).split("evaluation").targets(0, 40)
    assert {len(target.boxes) for target in targets} == {1, 2, 3}


def test_words_that_have_no_place_are_left_out() -> None:
    (target,) = (
        open_with("text_pages", width=64, height=64, smallest=100, largest=200).split("evaluation").targets(0, 1)
    )
    assert target.boxes.shape == (0, 4)
    assert not target.mask.any()


def test_sizes_are_a_range() -> None:
    assert open_with("text_pages", smallest=20, largest=20).version == 1
    with pytest.raises(ConfigError, match="smallest 21 <= largest 20 must hold"):
        open_with("text_pages", smallest=21, largest=20)
