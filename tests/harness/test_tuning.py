"""The search on a card's model: samples to choose by and others, labels of the data or the float model's decisions."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chips import March
from engine.convert.items import QUANTIZED
from harness.suites.settings import Settings
from harness.tuning import ScoredSamples, search_of_card
from harness.zoo.cards import Labels, load_card
from harness.zoo.float_baseline import float_score

CARD = load_card("mnist_lenet")


def scored(indices: range, labels: Labels = Labels.DATA) -> ScoredSamples:
    card = CARD.model_copy(update={"metric": CARD.metric.model_copy(update={"labels": labels})})
    search, _ = search_of_card(CARD, March("bayes-e"), Settings(), 2, 2, by_task=False)
    split = CARD.open_dataset().split(CARD.dataset.evaluation.split)
    return ScoredSamples(card, search.conversion.config, split, tuple(indices))


def test_the_float_score_is_that_of_the_same_samples() -> None:
    assert scored(range(70)).of_float() == pytest.approx(float_score(CARD, 70).value)


def test_decisions_of_the_float_model_stand_in_for_labels() -> None:
    samples = scored(range(3, 60), Labels.FLOAT)
    assert samples.of_float() == 1.0
    assert np.array_equal(samples.targets, samples.floats[0].reshape(57, -1).argmax(axis=1))


def test_mixes_are_chosen_and_reported_on_different_samples() -> None:
    search, reported = search_of_card(CARD, March("bayes-e"), Settings(), 4, 25, by_task=True)
    assert search.task is not None
    assert isinstance(chooser := search.task.__self__, ScoredSamples)  # type: ignore[attr-defined]
    assert isinstance(other := reported.of.__self__, ScoredSamples)  # type: ignore[attr-defined]
    assert not set(chooser.indices) & set(other.indices)
    assert len(chooser.indices) == len(other.indices) == 25
    right = reported.of(search.conversion[QUANTIZED]) * 25
    assert right == pytest.approx(round(right))


def test_a_metric_that_should_be_small_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = type(CARD.open_metric())
    monkeypatch.setattr(metric, "higher_is_better", False)
    search, _ = search_of_card(CARD, March("bayes-e"), Settings(), 4, 4, by_task=True)
    assert not search.higher_is_better
