"""Mean average precision against cases worked out by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from engine.errors import InferenceError
from harness.metrics import open_metric
from harness.metrics.detection import (
    Detections,
    Map50Options,
    average_precision,
    box_iou,
    decode_heads,
    score_detections,
)
from harness.metrics.resampling import RESAMPLES, draws_of, weightings
from tests.harness.metrics.scenes import Box, scene


def found(boxes: Sequence[Box], scores: Sequence[float], classes: Sequence[int]) -> Detections:
    shape = np.array(boxes, np.float32).reshape(-1, 4)
    return Detections(shape, np.array(scores, np.float32), np.array(classes, np.int64))


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
        assert average_precision(np.array(hits, bool), targets) == pytest.approx(expected)


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
        assert score.informative is not None
        assert score.informative.tolist() == [False, False, True]

    def test_a_stray_box_of_which_the_model_is_not_sure_flips_no_image(self) -> None:
        """Of 50 images 31 are empty: boxes at 0.01 to 0.24 on all of them leave every image right, and mAP at 1."""
        scenes = [scene([self.A], [0])] * 19 + [scene([], [])] * 31
        sure = [found([self.A], [0.9], [0])] * 19
        stray = [found([self.B], [0.01 + 0.23 * index / 30], [0]) for index in range(31)]
        quiet, noisy = (score_detections(sure + rest, scenes, 1) for rest in ([found([], [], [])] * 31, stray))
        for score in (quiet, noisy):
            assert (score.value, score.stderr, score.per_sample.tolist()) == (1.0, 0.0, [1.0] * 50)
            assert score.informative is not None
            assert score.informative.sum() == 19
        assert score_detections(sure + stray, scenes, 1, sure=0.2).per_sample.sum() < 50

    def test_without_any_target_the_share_of_right_images_counts(self) -> None:
        scenes = [scene([], [])] * 4
        score = score_detections([found([self.A], [0.9], [0])] + [found([], [], [])] * 3, scenes, 1)
        assert (score.value, score.per_sample.tolist(), score.resampled) == (0.75, [0, 1, 1, 1], None)

    def test_resamples_are_those_of_the_images_repeated(self) -> None:
        """Every draw, computed at once, against mAP of a data set in which the images occur that often."""
        random = np.random.RandomState(3)
        places = [tuple(float(v) for v in (x, x, x + 10, x + 10)) for x in range(0, 60, 12)]
        scenes, detections = [], []
        for _ in range(12):
            chosen = [places[index] for index in random.choice(5, random.randint(0, 4), replace=False)]
            scenes.append(scene(chosen, random.randint(2, size=len(chosen)).tolist()))
            seen = [places[index] for index in random.choice(5, random.randint(0, 5), replace=False)]
            order = np.sort(random.rand(len(seen)).round(1))[::-1]
            detections.append(found(seen, order.tolist(), random.randint(2, size=len(seen)).tolist()))
        score = score_detections(detections, scenes, 2)
        assert score.resampled is not None
        weights = weightings(12)
        for row in (0, 1, 2, RESAMPLES - 1, RESAMPLES, len(weights) - 1):
            index = np.repeat(np.arange(12), weights[row].astype(int)).tolist()
            if any(len(scenes[i].classes) for i in index):
                again = score_detections([detections[i] for i in index], [scenes[i] for i in index], 2)
                assert score.resampled[row] == pytest.approx(again.value, abs=1e-6)

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

    NESTED = Map50Options.model_validate({"classes": 1, "heads": [{"stride": 8, "anchors": [[8, 8], [8, 4]]}]})

    def nested(self) -> list[np.ndarray]:
        """Two boxes with one centre on an 8 x 8 image, equally sure; their overlap is exactly 0.5."""
        return [np.array([[0, 0, 0, 0, 20, 20] * 2], np.float32).reshape(1, 12, 1, 1)]

    @pytest.mark.parametrize(("nms_iou", "kept"), [(0.5, 2), (0.49, 1)])
    def test_only_a_larger_overlap_than_the_limit_suppresses(self, nms_iou: float, kept: int) -> None:
        (decoded,) = decode_heads(self.nested(), self.NESTED.model_copy(update={"nms_iou": nms_iou}))
        expected = [[0, 0, 8, 8], [0, 2, 8, 6]][:kept]  # of equal scores the first is kept
        np.testing.assert_allclose(decoded.boxes, expected, atol=1e-5)

    @pytest.mark.parametrize(("threshold", "kept"), [(0.25, 2), (0.2501, 0)])
    def test_the_least_score_is_objectness_times_class(self, threshold: float, kept: int) -> None:
        heads = self.nested()
        heads[0][:, [4, 5, 10, 11]] = 0  # 0.5 each
        (decoded,) = decode_heads(heads, self.NESTED.model_copy(update={"score_threshold": threshold}))
        assert decoded.scores.tolist() == [0.25] * kept

    def test_a_dropped_box_suppresses_nothing(self) -> None:
        """Of three boxes in a row that overlap their neighbours, the outer two stay."""
        options = Map50Options.model_validate({"classes": 1, "heads": [{"stride": 4, "anchors": [[20, 4]]}]})
        head = np.array([[0, 0, 0, 0, 3 - column, 20] for column in range(3)], np.float32).T
        (decoded,) = decode_heads(
            [head.reshape(1, 6, 1, 3)], options.model_copy(update={"nms_iou": 0.5})
        )  # neighbours overlap by 16 of 24, the outer two by 12 of 28
        np.testing.assert_allclose(decoded.boxes[:, 0], [2 - 10, 10 - 10], atol=1e-5)

    def test_offsets_and_sizes_grow_with_the_logits(self) -> None:
        """``ln 3`` is 0.75 behind the logistic function: offset 1 cell, size 2.25 anchors."""
        heads = self.heads()
        heads[0][0, :, 0, 1] = [np.log(3), 0, np.log(3), 0, 20, 20, -20]
        (decoded,) = decode_heads(heads, self.OPTIONS)
        left, top, right, bottom = decoded.boxes[0]
        assert (left + right) / 2 == pytest.approx((1 + 1) * 8)
        assert (top + bottom) / 2 == pytest.approx((0.5 + 0) * 8)
        assert (right - left, bottom - top) == (pytest.approx(2.25 * 6), pytest.approx(10))

    def test_defaults_are_those_of_the_documentation(self) -> None:
        options = self.OPTIONS
        assert (options.score_threshold, options.nms_iou, options.max_detections) == (0.01, 0.5, 100)

    def test_an_image_alone_is_scored_with_all_classes_in_one_ranking(self) -> None:
        """A false positive of class 1 above the hit of class 0 halves the precision there."""
        detections = [found([self.B, self.A], [0.9, 0.8], [1, 0])]
        score = score_detections(detections, [scene([self.A], [0])], 2)
        assert score.value == 1.0
        assert score.per_sample.tolist() == [0.5]

    def test_the_bootstrap_draws_images_with_their_targets(self) -> None:
        score = score_detections(
            [found([self.A], [0.9], [0]), found([], [], [])], [scene([self.A], [0]), scene([self.A], [0])], 1
        )
        assert score.value == 0.5
        assert score.resampled is not None
        np.testing.assert_allclose(score.resampled, weightings(2)[:, 0] / 2)
        assert score.stderr == pytest.approx(np.std(draws_of(score.resampled), ddof=1))


@pytest.mark.parametrize("nms_iou", [0.3, 0.6, 1.0])
def test_suppression_is_that_of_all_pairs(nms_iou: float) -> None:
    """Greedy suppression as published (Girshick et al., R-CNN, section 2.3), pair by pair, and cut off at the end."""
    random = np.random.RandomState(7)
    corner, side = random.uniform(0, 60, (150, 2)), random.uniform(5, 40, (150, 2))
    rows = np.concatenate([corner + side / 2, side, random.rand(150, 3)], axis=1).astype(np.float32)
    options = {"classes": 3, "decoder": "yolov8", "nms_iou": nms_iou, "max_detections": 40, "score_threshold": 0.5}
    (found,) = decode_heads([rows.T[np.newaxis]], Map50Options.model_validate(options))
    boxes = np.concatenate([corner, corner + side], axis=1).astype(np.float32)
    kept: list[int] = []
    for index in np.argsort(-rows[:, 4:].max(axis=1), kind="stable"):
        rivals = [other for other in kept if rows[other, 4:].argmax() == rows[index, 4:].argmax()]
        overlaps = box_iou(boxes[[index]], boxes[rivals])[0] if rivals else np.zeros(1)
        if rows[index, 4:].max() >= 0.5 and (overlaps <= nms_iou).all():
            kept.append(int(index))
    assert len(kept) > 40
    np.testing.assert_allclose(found.scores, rows[kept[:40], 4:].max(axis=1))
    np.testing.assert_allclose(found.boxes, boxes[kept[:40]], rtol=1e-4, atol=1e-4)


def test_a_network_that_finds_something_everywhere_is_scored_in_time() -> None:
    """Seeded weights: 8,400 boxes of 80 classes on each image, all about as likely. All pairs of them took 7 s each."""
    random = np.random.RandomState(1)
    places, sides = random.uniform(0, 640, (2, 2, 8400)), random.uniform(4, 200, (2, 2, 8400))
    output = np.concatenate([places, sides, random.uniform(0.3, 0.6, (2, 80, 8400))], axis=1).astype(np.float32)
    metric = open_metric("map50", {"classes": 80})
    start = time.process_time()
    assert metric.score([output], metric.labels([output])).value == 1.0
    assert time.process_time() - start < 3


@pytest.mark.parametrize("scale", [1.0, 1.2])
def test_raw_heads_of_yolov3_and_v4(scale: float) -> None:
    """Redmon and Farhadi, YOLOv3, section 2.1; ``scale_x_y`` of darknet's YOLOv4 (``get_yolo_box``), box by box."""
    raw = np.random.RandomState(5).normal(size=(1, 2 * 8, 3, 4)).astype(np.float32)
    anchors = ((10.0, 13.0), (33.0, 23.0))
    head = {"stride": 16, "anchors": anchors, "scale_xy": scale}
    options = {"classes": 3, "heads": [head], "formula": "yolov3", "nms_iou": 1.0, "score_threshold": 0.0}
    (found,) = decode_heads([raw], Map50Options.model_validate(options))
    wanted = []
    for place, (width, height) in enumerate(anchors):
        for row in range(3):
            for column in range(4):
                x, y, w, h, sure, *classes = raw[0, 8 * place : 8 * place + 8, row, column].astype(float)
                s = [1 / (1 + np.exp(-value)) for value in (x, y, sure, *classes)]
                left, top = ((scale * s[i] - 0.5 * (scale - 1) + at) * 16 for i, at in ((0, column), (1, row)))
                w, h = np.exp(w) * width / 2, np.exp(h) * height / 2
                wanted.append([s[2] * max(s[3:]), left - w, top - h, left + w, top + h])
    rows = np.array(sorted(wanted, reverse=True))
    np.testing.assert_allclose(found.scores, rows[:, 0], rtol=1e-4)
    np.testing.assert_allclose(found.boxes, rows[:, 1:], rtol=1e-4, atol=1e-3)


def test_boxes_that_are_no_numbers_overlap_nothing() -> None:
    boxes = np.array([[0, 0, 2, 2], [np.nan, 0, 2, 2], [3, 3, 1, 1]], np.float32)
    assert box_iou(boxes[:1], boxes).tolist()[0][0] == 1
    assert (box_iou(boxes[:1], boxes)[0][1:] > 0).tolist() == [False, False]
