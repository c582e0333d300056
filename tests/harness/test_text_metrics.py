"""Metrics of text: CTC decoding, edit distance, boxes from probability maps, against plain definitions."""

from __future__ import annotations

from functools import cache
from itertools import groupby, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError, InferenceError
from harness.datasets import SceneTarget
from harness.metrics import open_metric
from harness.metrics.detection import box_iou
from harness.metrics.recognition import EditSimilarity, EditSimilarityOptions
from harness.metrics.text_detection import Hmean, HmeanOptions, text_boxes


def one_hot(labels: list[int], classes: int = 4) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def metric(**options: object) -> EditSimilarity:
    return EditSimilarity(EditSimilarityOptions.model_validate({"characters": "a\nb", **options}))


def levenshtein(first: str, second: str) -> int:
    """The recurrence of the definition."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        )

    return distance(len(first), len(second))


class TestEditSimilarity:
    @pytest.mark.parametrize(
        ("labels", "text"),
        [
            ([0, 1, 1, 0, 1, 2, 2, 0], "aab"),
            ([3, 3, 1, 3, 2, 3], "a b"),  # blanks at both ends are dropped
            ([0, 0], ""),
            ([2], "b"),
        ],
    )
    def test_greedy_decoding(self, labels: list[int], text: str) -> None:
        assert metric().decode(one_hot(labels)) == text

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    def test_decoding_is_merge_then_drop(self, labels: list[int]) -> None:
        expected = "".join(["", "a", "b", " "][label] for label, _ in groupby(labels))
        assert metric(strip=False).decode(one_hot(labels)) == expected

    def test_the_blank_may_be_the_last_class(self) -> None:
        assert metric(blank=3).decode(one_hot([3, 0, 3, 1, 2, 0])) == "ab a"

    def test_characters_as_a_list_and_with_a_final_line_feed(self) -> None:
        for characters in (["a", "b"], "a\nb\n"):
            assert EditSimilarityOptions(characters=characters).alphabet == ["", "a", "b", " "]
        assert EditSimilarityOptions(characters="a\nb", space=False).alphabet == ["", "a", "b"]

    @given(st.lists(st.tuples(st.text("ab", max_size=6), st.text("ab", max_size=6)), min_size=2, max_size=8))
    def test_similarity_is_one_minus_the_normalised_distance(self, pairs: list[tuple[str, str]]) -> None:
        def steps(text: str) -> list[int]:
            labels = [label for character in text for label in (1 + "ab".index(character), 0)]
            return labels + [0] * (12 - len(labels))

        score = metric().score([np.stack([one_hot(steps(read)) for read, _ in pairs])], [text for _, text in pairs])
        expected = [1 - levenshtein(a, b) / max(len(a), len(b)) if a or b else 1.0 for a, b in pairs]
        np.testing.assert_allclose(score.per_sample, expected)
        assert score.value == pytest.approx(np.mean(expected))
        assert score.stderr == pytest.approx(np.std(expected, ddof=1) / np.sqrt(len(pairs)))

    def test_nan_scores_nothing(self) -> None:
        outputs = one_hot([1, 0])[np.newaxis].copy()
        outputs[0, 1, 1] = np.nan
        assert metric().score([outputs], ["a"]).value == 0

    @pytest.mark.parametrize(
        ("shape", "texts"), [((1, 2, 5), ["a"]), ((1, 2, 4), ["a", "b"]), ((1, 8), ["a"]), ((0, 2, 4), [])]
    )
    def test_outputs_that_do_not_fit(self, shape: tuple[int, ...], texts: list[str]) -> None:
        with pytest.raises(InferenceError, match="edit_similarity"):
            metric().score([np.zeros(shape, np.float32)], texts)

    def test_targets_that_are_no_texts(self) -> None:
        with pytest.raises(InferenceError, match="needs a text for every image"):
            metric().score([np.zeros((1, 2, 4), np.float32)], np.array([1]))

    def test_characters_must_be_given(self) -> None:
        with pytest.raises(ConfigError, match="characters"):
            open_metric("edit_similarity")


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
