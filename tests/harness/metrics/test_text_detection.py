"""Boxes from probability maps and their harmonic mean, against plain definitions."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InferenceError
from harness.datasets import SceneTarget
from harness.metrics.detection import box_iou
from harness.metrics.text_detection import Hmean, HmeanOptions, text_boxes


def page(boxes: list[tuple[int, int, int, int]], size: int = 64) -> SceneTarget:
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return SceneTarget(shape, np.zeros(len(boxes), np.int64), np.zeros((size, size), np.uint8))


def probabilities(boxes: list[tuple[int, int, int, int]], value: float = 0.9, size: int = 64) -> np.ndarray:
    """What a perfect network gives: each box shrunk by as much as the metric lets it grow."""
    image = np.zeros((1, size, size), np.float32)
    for left, top, right, bottom in boxes:
        image[0, top:bottom, left:right] = value
    return image


class TestHmean:
    OPTIONS = HmeanOptions(unclip_ratio=0)
    BOXES = ((4, 4, 30, 14), (4, 30, 40, 44), (50, 20, 60, 30))

    @pytest.mark.parametrize(("found", "value"), [(3, 1.0), (2, 2 * 2 / 5), (1, 2 / 4), (0, 0.0)])
    def test_by_hand(self, found: int, value: float) -> None:
        score = Hmean(self.OPTIONS).score(
            [probabilities(list(self.BOXES[:found]))[np.newaxis]], [page(list(self.BOXES))]
        )
        assert score.value == pytest.approx(value)
        assert score.per_sample.tolist() == [pytest.approx(value)]

    def test_counts_of_all_images_are_summed(self) -> None:
        outputs = np.stack([probabilities(list(self.BOXES)), probabilities([]), probabilities(list(self.BOXES[:1]))])
        score = Hmean(self.OPTIONS).score([outputs], [page(list(self.BOXES)), page([]), page([])])
        assert score.value == pytest.approx(2 * 3 / 7)
        assert score.per_sample.tolist() == [1, 1, 0]
        assert score.stderr > 0
        assert score.informative is not None
        assert score.informative.tolist() == [True, False, False]

    def test_a_box_grows_by_area_over_perimeter(self) -> None:
        (box,) = text_boxes(probabilities([(20, 20, 40, 30)])[0], HmeanOptions(unclip_ratio=1.5))
        growth = 20 * 10 * 1.5 / 60
        np.testing.assert_allclose(box, [20 - growth, 20 - growth, 40 + growth, 30 + growth])

    def test_boxes_stay_on_the_image(self) -> None:
        (box,) = text_boxes(probabilities([(0, 0, 64, 30)])[0], HmeanOptions())
        assert box.tolist() == pytest.approx([0, 0, 64, 30 + 64 * 30 * 1.6 / 188])

    @pytest.mark.parametrize(
        ("box", "value"),
        [((4, 4, 30, 6), 0.9), ((4, 4, 30, 14), 0.45), ((4, 4, 30, 14), 0.2)],
        ids=["thin", "mean", "map"],
    )
    def test_weak_regions_are_dropped(self, box: tuple[int, int, int, int], value: float) -> None:
        assert not len(text_boxes(probabilities([box], value)[0], HmeanOptions()))

    def test_nan_is_no_text(self) -> None:
        assert not len(text_boxes(np.full((8, 8), np.nan, np.float32), HmeanOptions()))

    @given(st.integers(0, 2**32 - 1))
    def test_matching_is_the_largest_possible(self, seed: int) -> None:
        random = np.random.RandomState(seed)

        def draw(count: int) -> list[tuple[int, int, int, int]]:
            corners = random.randint(0, 20, (count, 2))
            sides = random.randint(3, 12, (count, 2))
            return [(int(x), int(y), int(x + w), int(y + h)) for (x, y), (w, h) in zip(corners, sides, strict=True)]

        outputs, targets = probabilities(draw(3)), draw(random.randint(1, 5))
        score = Hmean(self.OPTIONS).score([outputs[np.newaxis]], [page(targets)])
        found = text_boxes(outputs[0], self.OPTIONS)
        fits = box_iou(found, np.array(targets, np.float32)) >= 0.5
        short, tall = sorted((fits, fits.T), key=len)[0], max(fits.shape)
        best = max(sum(short[i, j] for i, j in enumerate(order)) for order in permutations(range(tall), len(short)))
        assert score.value == pytest.approx(2 * best / (len(found) + len(targets)))

    def test_outputs_that_do_not_fit(self) -> None:
        with pytest.raises(InferenceError, match="outputs have shapes"):
            Hmean(self.OPTIONS).score([np.zeros((1, 1, 32, 64))], [page([])])

    @pytest.mark.parametrize(
        ("options", "boxes"),
        [
            ({"threshold": 0.5}, 0),  # pixels at the threshold are no text
            ({"threshold": 0.49}, 1),
            ({"box_threshold": 0.5}, 1),  # a mean at the threshold is enough
            ({"box_threshold": 0.501}, 0),
            ({"min_side": 3}, 1),
            ({"min_side": 4}, 0),
        ],
    )
    def test_limits_of_a_region(self, options: dict[str, float], boxes: int) -> None:
        """A region of 20 x 3 pixels at 0.5."""
        assert len(text_boxes(probabilities([(4, 4, 24, 7)], 0.5)[0], HmeanOptions(**options))) == boxes

    def test_the_mean_is_taken_over_the_box(self) -> None:
        """Two of four quarters at 0.9 touch at a corner: one region, of which the box has the mean 0.45."""
        image = probabilities([(0, 0, 8, 8), (8, 8, 16, 16)])[0]
        assert not len(text_boxes(image, HmeanOptions(box_threshold=0.46)))
        (box,) = text_boxes(image, HmeanOptions(box_threshold=0.44, unclip_ratio=0))
        assert box.tolist() == [0, 0, 16, 16]

    def test_defaults_are_paddle_ocrs(self) -> None:
        options = HmeanOptions()
        assert (options.threshold, options.box_threshold, options.unclip_ratio) == (0.3, 0.5, 1.6)
        assert (options.min_side, options.match_iou) == (3, 0.5)

    @pytest.mark.parametrize(("match_iou", "value"), [(0.5, 1.0), (0.51, 0.0)])
    def test_an_overlap_at_the_limit_matches(self, match_iou: float, value: float) -> None:
        options = HmeanOptions(unclip_ratio=0, match_iou=match_iou)
        score = Hmean(options).score([probabilities([(0, 0, 20, 10)])[np.newaxis]], [page([(0, 0, 10, 10)])])
        assert score.value == value

    def test_nothing_to_find_and_nothing_found_is_right(self) -> None:
        score = Hmean(self.OPTIONS).score([probabilities([])[np.newaxis]], [page([])])
        assert (score.value, score.stderr, score.per_sample.tolist()) == (1.0, 0.0, [1.0])
