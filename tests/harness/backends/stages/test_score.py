"""Accuracy beside the float model's, fidelity, and what is kept per image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS, SCORED
from harness.backends.stages.score import JUDGE, SCORE, fidelity_of, paired_accuracy
from harness.backends.values import FloatJudged, Scored
from harness.metrics import detection, open_metric
from harness.metrics.resampling import weightings
from harness.trials.comparison import FidelityMeter
from tests.harness.backends.stages import work

OURS = np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0]])
FLOATS = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
TARGETS = np.array([0, 0, 1, 1])


def met(ours: list[np.ndarray], floats: list[np.ndarray]) -> FidelityMeter:
    meter = FidelityMeter()
    meter.update(ours, floats)
    return meter


def test_both_models_are_scored_on_the_same_images() -> None:
    accuracy, kept = paired_accuracy([OURS], FloatJudged(open_metric("top1"), [FLOATS], TARGETS))
    assert (accuracy.metric, accuracy.float_value, accuracy.value) == ("top1", 0.75, 0.5)
    assert accuracy.stderr == pytest.approx(np.sqrt(0.5 * 0.5 / 4))
    assert accuracy.delta_stderr == pytest.approx(np.std([0, -1, 0, 0], ddof=1) / 2)
    assert accuracy.higher_is_better
    assert {name: array.tolist() for name, array in kept.items()} == {
        "per_sample": [1, 0, 0, 1],
        "float_per_sample": [1, 1, 0, 1],
    }
    assert (accuracy.informative, accuracy.by_float) == (None, False)


def test_fidelity_is_the_mean_and_the_least_of_all_cosines() -> None:
    """And of each output by its name, where there are several."""
    metric = open_metric("top1")
    both = [OURS, FLOATS], [FLOATS, FLOATS]
    fidelity = fidelity_of(met(*both), ("first", "second"), both[0], FloatJudged(metric, both[1], TARGETS))
    assert fidelity.cosine == pytest.approx(7 / 8)
    assert fidelity.cosine_min == 0
    assert fidelity.max_abs == 2
    assert fidelity.parts == {"first": pytest.approx(0.75), "second": pytest.approx(1)}
    assert fidelity.sqnr_db == pytest.approx(10 * np.log10(2 * np.square(FLOATS).sum() / 8))
    alone = fidelity_of(met([OURS], [FLOATS]), ("only",), [OURS], FloatJudged(metric, [FLOATS], TARGETS))
    assert (alone.agreement, alone.parts) == (0.75, {})


def rows(*images: list[tuple[float, float, float]]) -> list[np.ndarray]:
    """An output of YOLOv5's form, one class: left, top and score of boxes of 10 pixels, up to three an image."""
    found = np.zeros((len(images), 3, 6), np.float32)
    for image, boxes in enumerate(images):
        for place, (left, top, score) in enumerate(boxes):
            found[image, place] = (left + 5, top + 5, 10, 10, 1, score)
    return [found]


def test_a_detector_is_paired_on_resamples_of_its_own_metric() -> None:
    """Of 50 images 31 are empty. Stray boxes at 0.01 change nothing; a network that finds half loses what it shows."""
    metric = open_metric("map50", {"classes": 1, "decoder": "yolov5"})
    floats = rows(*[[(0, 0, 0.9), (20, 0, 0.8)]] * 19, *[[]] * 31)
    labels = metric.labels(floats)
    assert labels is not None
    stray = rows(*[[(0, 0, 0.9), (20, 0, 0.8), (40, 0, 0.01)]] * 19, *[[(5, 5, 0.01)]] * 31)
    same, kept = paired_accuracy(stray, FloatJudged(metric, floats, labels), by_float=True)
    assert (same.value, same.float_value, same.delta, same.margin) == (1, 1, 0, 0)
    assert same.found(50) == "The float model finds objects in 19 of 50 images."
    assert kept["informative"].sum() == 19
    assert kept["per_sample"].tolist() == [1.0] * 50
    half, kept = paired_accuracy(rows(*[[(0, 0, 0.9)]] * 19, *[[]] * 31), FloatJudged(metric, floats, labels))
    assert half.value == pytest.approx(0.5)
    assert half.margin == pytest.approx(0)  # the same loss in every image with objects
    assert kept["resampled"].dtype == np.float32
    assert kept["resampled"].shape == kept["float_resampled"].shape == weightings(50).shape[:1]


def test_what_is_kept_of_a_classifier() -> None:
    card, data = work.CARD, work.CARD.open_dataset()
    wanted = np.asarray(data.split(card.dataset.evaluation.split).targets(0, 4))
    right = np.eye(10)[wanted]
    ours = np.concatenate([right[:3], np.roll(right, 1, axis=1)[3:]])
    given: dict[Any, Any] = {CARD: card, DATASET: data, EVALUATION_SAMPLES: 4, FLOAT_OUTPUTS: [right]}
    given = work.given_by(JUDGE, given) | {CARD: card, OUTPUTS: ([ours], met([ours], [right]))}
    found: Scored = work.given_by(SCORE, given)[SCORED]
    assert (found.accuracy.value, found.accuracy.float_value) == (0.75, 1)
    kept = {name: np.asarray(array) for name, array in found.predictions.items()}
    assert kept["per_sample"].tolist() == [1, 1, 1, 0]
    assert kept["per_sample_cosine"].tolist() == [1, 1, 1, 0]
    assert kept["classes"].tolist() == [*wanted[:3], (wanted[3] + 1) % 10]
    assert kept["float_classes"].tolist() == kept["targets"].tolist() == wanted.tolist()
    assert kept["by_class"][wanted[3]] == np.mean(kept["per_sample"][wanted == wanted[3]])
    assert kept["float_by_class"][wanted[3]] == 1


def test_the_float_model_is_judged_once_beside_all_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of the float model are decoded once, and its score computed once, whatever trials stand beside it."""
    metric = open_metric("map50", {"classes": 1, "decoder": "yolov5"})
    (given,) = rows(*[[(0, 0, 0.9), (20, 0, 0.8)]] * 5)
    given.flags.writeable = False
    labels = metric.labels([given])
    assert labels is not None
    floats = FloatJudged(metric, [given], labels)
    decoded: list[int] = []
    plain = detection.decode_heads
    monkeypatch.setattr(detection, "decode_heads", lambda arrays, *words: decoded.append(1) or plain(arrays, *words))
    scored = []
    for number in range(1, 4):
        (ours,) = rows(*[[(0, 0, 0.9)]] * number, *[[]] * (5 - number))
        ours.flags.writeable = False
        accuracy, _ = paired_accuracy([ours], floats)
        fidelity = fidelity_of(met([ours], [given]), ("only",), [ours], floats)
        scored.append((accuracy.value, accuracy.float_value, fidelity.agreement))
    assert scored == [(number / 10, 1, number / 10) for number in (1, 2, 3)]
    assert len(decoded) == 3, "each trial's own"
