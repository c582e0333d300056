"""Metrics against cases that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.errors import ConfigError, InferenceError
from harness.datasets import SceneTarget
from harness.metrics import METRICS, open_metric
from harness.metrics.base import bootstrap_stderr
from harness.metrics.detection import (
    Detections,
    Map50Options,
    average_precision,
    box_iou,
    decode_heads,
    score_detections,
)

Box = tuple[float, float, float, float]


def scene(boxes: Sequence[Box], classes: Sequence[int], mask: np.ndarray | None = None) -> SceneTarget:
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return SceneTarget(shape, np.array(classes, np.int64), np.zeros((16, 16), np.uint8) if mask is None else mask)


def found(boxes: Sequence[Box], scores: Sequence[float], classes: Sequence[int]) -> Detections:
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return Detections(shape, np.array(scores, np.float32), np.array(classes, np.int64))


def test_registry_keys_are_the_names() -> None:
    assert {name: metric.name for name, metric in METRICS.items()} == {name: name for name in METRICS}
    assert all(metric.higher_is_better for metric in METRICS.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mAP50", {}, "did you mean 'map50'"),
        ("miou", {"clases": 3}, "did you mean 'classes'"),
        ("map50", {"classes": 2, "heads": [{"stride": 8, "anchor": [[1, 1]]}]}, "did you mean 'anchors'"),
        ("top1", {"k": 2}, "unknown key 'k'"),
    ],
)
def test_unknown_names_and_options(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_metric(name, options)


class TestTopK:
    LOGITS = np.array([[1, 5, 3], [4, 4, 0], [4, 4, 0], [0, 1, 2]], np.float32)
    CLASSES = np.array([1, 0, 1, 0])

    def test_equal_outputs_rank_by_index(self) -> None:
        score = open_metric("top1").score([self.LOGITS], self.CLASSES)
        assert score.per_sample.tolist() == [1, 1, 0, 0]
        assert score.value == 0.5
        assert score.stderr == pytest.approx(np.sqrt(0.25 / 4))

    def test_per_sample_agrees_with_argmax(self) -> None:
        random = np.random.RandomState(1)
        logits = random.randint(-4, 4, size=(500, 10)).astype(np.float32)  # many ties, as integers give
        classes = random.randint(10, size=500)
        score = open_metric("top1").score([logits], classes)
        np.testing.assert_array_equal(score.per_sample, logits.argmax(axis=1) == classes)

    def test_top5(self) -> None:
        logits = np.arange(8, dtype=np.float32)[np.newaxis].repeat(8, axis=0)
        assert open_metric("top5").score([logits], np.arange(8)).per_sample.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]

    def test_trailing_dimensions_of_size_one(self) -> None:
        assert open_metric("top1").score([self.LOGITS[:, :, None, None]], self.CLASSES).value == 0.5

    def test_nan_is_wrong(self) -> None:
        score = open_metric("top1").score(
            [np.array([[np.nan, 1], [1, np.nan], [1, 0]], np.float32)], np.array([0, 0, 0])
        )
        assert score.per_sample.tolist() == [0, 0, 1]

    @pytest.mark.parametrize(
        ("outputs", "classes"),
        [
            ([LOGITS, LOGITS], CLASSES),
            ([LOGITS[:2]], CLASSES),
            ([LOGITS], np.array([1, 0, 1, 3])),
            ([LOGITS[:0]], CLASSES[:0]),
        ],
    )
    def test_outputs_that_do_not_fit(self, outputs: list[np.ndarray], classes: np.ndarray) -> None:
        with pytest.raises(InferenceError, match="top1"):
            open_metric("top1").score(outputs, classes)


class TestMiou:
    def logits_of(self, mask: np.ndarray, classes: int) -> np.ndarray:
        return np.moveaxis(np.eye(classes, dtype=np.float32)[mask], -1, 0)

    def test_by_hand(self) -> None:
        target = np.array([[0, 0, 1, 1]], np.uint8)
        output = np.array([[0, 1, 1, 1]], np.uint8)
        score = open_metric("miou", {"classes": 3}).score(
            [self.logits_of(output, 3)[np.newaxis]], [scene([], [], target)]
        )
        assert score.value == pytest.approx((1 / 2 + 2 / 3) / 2)  # class 2 occurs nowhere and stays out
        assert score.per_sample.tolist() == [pytest.approx(score.value)]
        assert score.stderr == pytest.approx(0, abs=1e-12)  # every resample of one image is that image

    def test_a_class_that_only_the_output_has_counts_as_zero(self) -> None:
        target = np.zeros((1, 4), np.uint8)
        output = np.array([[0, 0, 0, 2]], np.uint8)
        score = open_metric("miou", {"classes": 3}).score(
            [self.logits_of(output, 3)[np.newaxis]], [scene([], [], target)]
        )
        assert score.value == pytest.approx((3 / 4 + 0) / 2)

    def test_pixels_of_all_images_are_counted_together(self) -> None:
        targets = [np.array([[0, 1]], np.uint8), np.array([[1, 1]], np.uint8)]
        outputs = [np.array([[0, 1]], np.uint8), np.array([[1, 0]], np.uint8)]
        logits = np.stack([self.logits_of(output, 2) for output in outputs])
        score = open_metric("miou", {"classes": 2}).score([logits], [scene([], [], target) for target in targets])
        assert score.value == pytest.approx((1 / 2 + 2 / 3) / 2)
        assert score.per_sample.tolist() == [1.0, pytest.approx((0 + 1 / 2) / 2)]
        assert score.stderr > 0

    def test_outputs_that_do_not_fit(self) -> None:
        with pytest.raises(InferenceError, match=r"\(1, 3, 16, 16\)"):
            open_metric("miou", {"classes": 3}).score([np.zeros((1, 3, 8, 8), np.float32)], [scene([], [])])
        with pytest.raises(InferenceError, match="boxes and masks"):
            open_metric("miou", {"classes": 3}).score([np.zeros((1, 3, 8, 8), np.float32)], np.array([1]))


class TestAveragePrecision:
    @pytest.mark.parametrize(
        ("hits", "targets", "expected"),
        [
            ([1, 1], 2, 1.0),
            ([0, 0], 2, 0.0),
            ([], 3, 0.0),
            ([1, 0], 1, 1.0),  # false positives behind the last hit cost nothing
            ([0, 1], 1, 0.5),
            ([1, 0, 1], 2, (1 + 2 / 3) / 2),
            ([1, 0, 0, 1, 1], 4, (1 + 3 / 5 + 3 / 5) / 4),  # precision 2/4 at the second hit rises to 3/5
        ],
    )
    def test_by_hand(self, hits: list[int], targets: int, expected: float) -> None:
        ranking = np.array(hits, np.int64)
        assert average_precision(ranking, np.ones_like(ranking), targets) == pytest.approx(expected)


class TestMap50:
    A, B = (0.0, 0.0, 10.0, 10.0), (20.0, 20.0, 30.0, 30.0)

    def test_box_iou(self) -> None:
        boxes = np.array([self.A, (5, 0, 15, 10), (3, 3, 3, 3)], np.float32)
        np.testing.assert_allclose(box_iou(boxes, boxes), [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 0]], rtol=1e-6)

    def test_perfect(self) -> None:
        score = score_detections([found([self.A, self.B], [0.9, 0.8], [0, 1])], [scene([self.A, self.B], [0, 1])], 3)
        assert (score.value, score.stderr, score.per_sample.tolist()) == (1.0, 0.0, [1.0])

    def test_a_target_is_hit_once(self) -> None:
        """The second detection of a target is a false positive; ranked before the other target's, it costs."""
        detections = [found([self.A, self.A, self.B], [0.9, 0.8, 0.7], [0, 0, 0])]
        score = score_detections(detections, [scene([self.A, self.B], [0, 0])], 1)
        assert score.value == pytest.approx((1 + 2 / 3) / 2)

    def test_the_larger_overlap_is_taken(self) -> None:
        near, far = (0.0, 0.0, 10.0, 10.0), (0.0, 3.0, 10.0, 13.0)
        detections = [found([near, far], [0.9, 0.8], [0, 0])]
        assert score_detections(detections, [scene([far, near], [0, 0])], 1).value == 1.0

    @pytest.mark.parametrize(("width", "value"), [(5.0, 1.0), (4.9, 0.0)])
    def test_threshold_is_inclusive(self, width: float, value: float) -> None:
        detections = [found([(0, 0, width, 10)], [0.9], [0])]
        assert score_detections(detections, [scene([self.A], [0])], 1).value == value

    def test_mean_over_classes_with_targets(self) -> None:
        detections = [found([self.A, self.B], [0.9, 0.8], [0, 2])]
        score = score_detections(detections, [scene([self.A, self.B], [0, 1])], 3)
        assert score.value == 0.5  # class 0 found, class 1 missed, class 2 has no target

    def test_ranking_runs_over_all_images(self) -> None:
        detections = [found([self.B], [0.9], [0]), found([self.A], [0.8], [0])]
        score = score_detections(detections, [scene([self.A], [0]), scene([self.A], [0])], 1)
        assert score.value == pytest.approx(1 / 2 / 2)
        assert score.per_sample.tolist() == [0.0, 1.0]
        assert score.stderr > 0

    def test_images_without_targets(self) -> None:
        score = score_detections(
            [found([], [], []), found([self.A], [0.5], [0]), found([self.A], [0.9], [0])],
            [scene([], []), scene([], []), scene([self.A], [0])],
            1,
        )
        assert score.value == 1.0
        assert score.per_sample.tolist() == [1.0, 0.0, 1.0]

    OPTIONS = Map50Options.model_validate(
        {"classes": 2, "heads": [{"stride": 8, "anchors": [[6, 10]]}, {"stride": 16, "anchors": [[20, 12]]}]}
    )

    def heads(self) -> list[np.ndarray]:
        """Two quiet heads for a 16 x 16 image."""
        return [np.full((1, 7, 2, 2), -20, np.float32), np.full((1, 7, 1, 1), -20, np.float32)]

    def test_decoding(self) -> None:
        heads = self.heads()
        heads[0][0, :, 1, 0] = [0, 0, 0, 0, 20, -20, 20]
        (decoded,) = decode_heads(heads, self.OPTIONS)
        np.testing.assert_allclose(decoded.boxes, [[4 - 3, 12 - 5, 4 + 3, 12 + 5]], rtol=1e-5)
        assert decoded.classes.tolist() == [1]
        assert decoded.scores == pytest.approx([1.0])

    def test_suppression_is_per_class(self) -> None:
        options = self.OPTIONS.model_copy(update={"nms_iou": 0.3})
        heads = self.heads()
        heads[0][0, :, 0, 0] = [9, 0, 1, 0, 20, 20, -20]  # centre (12, 4)
        heads[0][0, :, 0, 1] = [0, 0, 1, 0, 3, 20, -20]  # the same place, less sure
        (decoded,) = decode_heads(heads, options)
        assert len(decoded.scores) == 1
        heads[0][0, 5:, 0, 1] = [-20, 20]
        (decoded,) = decode_heads(heads, options)
        assert decoded.classes.tolist() == [0, 1]

    def test_best_detections_are_kept(self) -> None:
        heads = self.heads()
        heads[0][0, 4] = [[1, 2], [3, 4]]
        heads[0][0, 5] = 20
        (decoded,) = decode_heads(heads, self.OPTIONS.model_copy(update={"max_detections": 2, "nms_iou": 1.0}))
        np.testing.assert_allclose(decoded.scores, 1 / (1 + np.exp([-4.0, -3.0])), rtol=1e-5)

    def test_not_finite_scores_are_dropped(self) -> None:
        heads = self.heads()
        heads[0][0, 4:] = np.nan
        assert len(decode_heads(heads, self.OPTIONS)[0].scores) == 0

    def test_metric_end_to_end(self) -> None:
        heads = self.heads()
        heads[0][0, :, 1, 0] = [0, 0, 0, 0, 20, -20, 20]
        metric = open_metric("map50", self.OPTIONS.model_dump())
        assert metric.score(heads, [scene([(1, 7, 7, 17)], [1])]).value == 1.0
        assert metric.score(heads, [scene([(1, 7, 7, 17)], [0])]).value == 0.0

    def test_outputs_that_do_not_fit(self) -> None:
        metric = open_metric("map50", self.OPTIONS.model_dump())
        with pytest.raises(InferenceError, match=r"\(1, 7, 2, 2\)"):
            metric.score(self.heads()[::-1], [scene([], [])])
        with pytest.raises(InferenceError, match="need"):
            metric.score(self.heads()[:1], [scene([], [])])


def test_bootstrap_is_near_the_closed_form_and_repeatable() -> None:
    hits = np.arange(400) % 5 == 0
    first = bootstrap_stderr(lambda counts: float(counts @ hits / 400), 400)
    assert first == bootstrap_stderr(lambda counts: float(counts @ hits / 400), 400)
    assert first == pytest.approx(np.sqrt(0.2 * 0.8 / 400), rel=0.15)
