"""The stages that open a card's data set and take calibration samples from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from engine.calibrate.data.sources import ArrayData
from engine.convert.items import DATA
from engine.convert.runner import Stage, Work
from engine.errors import MissingError
from harness.backends.items import CALIBRATION_USE, CARD, DATA_DIGEST, DATASET, SAMPLES
from harness.backends.values import CalibrationUse
from harness.datasets import Dataset, Samples, Split
from harness.zoo.cards import ModelCard, load_card


@cache
def _opened(model: str, digest: str) -> Dataset:
    """The data set of a card, opened once per process.

    Raises:
        MissingError: the data are not those that the trial was planned with.
    """
    dataset = load_card(model).open_dataset()
    if dataset.digest != digest:
        raise MissingError(f"model {model}: its data set has changed during the sweep; start the sweep again")
    return dataset


def _open(work: Work) -> None:
    work.give(DATASET, _opened(work[CARD].name, work[DATA_DIGEST]))


def _take(work: Work) -> None:
    work.give(SAMPLES, calibration_samples(work[CARD], work[DATASET], work[CALIBRATION_USE]))


def calibration_samples(card: ModelCard, dataset: Dataset, use: CalibrationUse) -> Samples:
    """Samples of the card's calibration split."""
    calibration = card.dataset.calibration
    split = dataset.split(calibration.split)
    if use.seed is None:
        return split.take(0, use.samples)
    drawn = np.sort(np.random.RandomState(use.seed).choice(calibration.count, use.samples, replace=False))
    return chosen_samples(split, drawn.tolist())


def chosen_samples(split: Split, indices: Sequence[int]) -> Samples:
    """Samples of ``split`` at these places, one behind the other."""
    found = [split.take(index, index + 1) for index in indices]
    return {part: np.concatenate([each[part] for each in found]) for part in found[0]}


def _feed(work: Work) -> None:
    card = work[CARD]
    specs = work.config.input_specs([spec.name for spec in card.input_specs])
    arrays = card.training_inputs(work[SAMPLES])
    work.give(DATA, ArrayData(arrays, specs))


OPEN_DATASET = Stage(name="open data set", run=_open, reads=(CARD, DATA_DIGEST), gives=(DATASET,))
TAKE_IMAGES = Stage(name="take images", run=_take, reads=(CARD, DATASET, CALIBRATION_USE), gives=(SAMPLES,))
FEED = Stage(name="feed", run=_feed, reads=(CARD, SAMPLES), gives=(DATA,), parameters=("input_parameters",))
