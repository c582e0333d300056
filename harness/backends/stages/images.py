"""The stages that open a card's data set and take calibration images from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import ArrayData
from engine.convert.items import DATA
from engine.convert.runner import Stage, Work
from engine.errors import MissingError
from harness.backends.items import CALIBRATION_USE, CARD, DATA_DIGEST, DATASET, IMAGES
from harness.datasets import Dataset
from harness.zoo.cards import load_card

Array = NDArray[Any]


@dataclass(frozen=True)
class CalibrationUse:
    """Which images are calibrated with.

    Attributes:
        samples: how many of the card's calibration split.
        seed: to draw them with; None for the first ones.
    """

    samples: int
    seed: int | None


@cache
def _opened(model: str, digest: str) -> Dataset:
    """The data set of a card, opened once per process.

    Raises:
        MissingError: the data are not those that the trial was planned with.
    """
    dataset = load_card(model).open_dataset()
    if dataset.digest != digest:
        raise MissingError(f"model {model}: its data set was changed while the sweep ran; start the sweep again")
    return dataset


def _open(work: Work) -> None:
    work.give(DATASET, _opened(work[CARD].name, work[DATA_DIGEST]))


def _take(work: Work) -> None:
    calibration, use = work[CARD].dataset.calibration, work[CALIBRATION_USE]
    split = work[DATASET].split(calibration.split)
    if use.seed is None:
        work.give(IMAGES, split.images(0, use.samples))
        return
    drawn = np.sort(np.random.RandomState(use.seed).choice(calibration.count, use.samples, replace=False))
    work.give(IMAGES, np.concatenate([split.images(index, index + 1) for index in drawn.tolist()]))


def _feed(work: Work) -> None:
    card = work[CARD]
    (spec,) = work.config.input_specs([card.input_spec.name])
    work.give(DATA, ArrayData({spec.name: card.training_images(work[IMAGES])}, [spec]))


OPEN_DATASET = Stage(name="open data set", run=_open, reads=(CARD, DATA_DIGEST), gives=(DATASET,))
TAKE_IMAGES = Stage(name="take images", run=_take, reads=(CARD, DATASET, CALIBRATION_USE), gives=(IMAGES,))
FEED = Stage(name="feed", run=_feed, reads=(CARD, IMAGES), gives=(DATA,), parameters=("input_parameters",))
