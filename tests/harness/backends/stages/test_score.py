"""Accuracy beside the float model's, fidelity, and what is kept per image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.backends.items import CARD, DATASET, EVALUATION_SAMPLES, FLOAT_OUTPUTS, OUTPUTS, SCORED
from harness.backends.stages.score import SCORE, Scored, _of, fidelity_of, paired_accuracy
from harness.metrics import open_metric
from harness.trials.comparison import FidelityMeter
from harness.trials.figures import HalfScore
from harness.trials.halves import selection_samples
from tests.harness.backends.stages import work

OURS = np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 1.0]])
FLOATS = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
TARGETS = np.array([0, 0, 1, 1])


def met(ours: list[np.ndarray], floats: list[np.ndarray]) -> FidelityMeter:
    meter = FidelityMeter()
    meter.update(ours, floats)
    return meter


def test_both_models_are_scored_on_the_same_images() -> None:
    accuracy, per_sample = paired_accuracy(open_metric("top1"), [OURS], [FLOATS], TARGETS)
    assert (accuracy.metric, accuracy.float_value, accuracy.value) == ("top1", 0.75, 0.5)
    assert accuracy.stderr == pytest.approx(np.sqrt(0.5 * 0.5 / 4))
    assert accuracy.delta_stderr == pytest.approx(np.std([0, -1, 0, 0], ddof=1) / 2)
    assert accuracy.higher_is_better
    assert per_sample.tolist() == [1, 0, 0, 1]


def test_fidelity_is_the_mean_and_the_least_of_all_cosines() -> None:
    """And of each output by its name, where there are several."""
    metric = open_metric("top1")
    both = [OURS, FLOATS], [FLOATS, FLOATS]
    fidelity = fidelity_of(met(*both), metric, ("first", "second"), *both)
    assert fidelity.cosine == pytest.approx(7 / 8)
    assert fidelity.cosine_min == 0
    assert fidelity.max_abs == 2
    assert fidelity.parts == {"first": pytest.approx(0.75), "second": pytest.approx(1)}
    assert fidelity.sqnr_db == pytest.approx(10 * np.log10(2 * np.square(FLOATS).sum() / 8))
    alone = fidelity_of(met([OURS], [FLOATS]), metric, ("only",), [OURS], [FLOATS])
    assert (alone.agreement, alone.parts) == (0.75, {})


def test_halves_are_scored_where_there_are_samples_enough() -> None:
    count = 2000
    chosen = selection_samples(count)
    assert chosen.any()
    targets = np.zeros(count, np.int64)
    right = np.tile([1.0, 0.0], (count, 1))
    ours = np.where(chosen[:, np.newaxis], right, 1 - right)
    accuracy, _ = paired_accuracy(open_metric("top1"), [ours], [right], targets)
    assert accuracy.selection == HalfScore(float_value=1, value=1)
    assert accuracy.test == HalfScore(float_value=1, value=0)
    few, _ = paired_accuracy(open_metric("top1"), [OURS[:3]], [FLOATS[:3]], TARGETS[:3])
    assert (few.selection, few.test) == (None, None)


def test_targets_that_are_no_array_are_halved_too() -> None:
    assert _of(["a", "b", "c"], np.array([True, False, True])) == ["a", "c"]
    assert np.asarray(_of(np.array([1, 2, 3]), np.array([True, False, True]))).tolist() == [1, 3]


def test_what_is_kept_of_a_classifier() -> None:
    card, data = work.CARD, work.CARD.open_dataset()
    wanted = np.asarray(data.split(card.dataset.evaluation.split).targets(0, 4))
    right = np.eye(10)[wanted]
    ours = np.concatenate([right[:3], np.roll(right, 1, axis=1)[3:]])
    given: dict[Any, Any] = {
        CARD: card,
        DATASET: data,
        EVALUATION_SAMPLES: 4,
        FLOAT_OUTPUTS: [right],
        OUTPUTS: ([ours], met([ours], [right])),
    }
    found: Scored = work.given_by(SCORE, given)[SCORED]
    assert (found.accuracy.value, found.accuracy.float_value) == (0.75, 1)
    kept = {name: np.asarray(array) for name, array in found.predictions.items()}
    assert kept["per_sample"].tolist() == [1, 1, 1, 0]
    assert kept["per_sample_cosine"].tolist() == [1, 1, 1, 0]
    assert kept["classes"].tolist() == [*wanted[:3], (wanted[3] + 1) % 10]
    assert kept["float_classes"].tolist() == kept["targets"].tolist() == wanted.tolist()
    assert kept["by_class"][wanted[3]] == np.mean(kept["per_sample"][wanted == wanted[3]])
    assert kept["float_by_class"][wanted[3]] == 1
