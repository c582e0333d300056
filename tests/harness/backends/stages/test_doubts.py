"""Calibration samples of a trial, looked at beside those that are evaluated."""

from __future__ import annotations

import numpy as np

from harness.backends.items import CARD, DATASET, DOUBTS, EVALUATION_SAMPLES, SAMPLES
from harness.backends.stages.doubts import LOOK_AT_DATA
from tests.harness.backends.stages import work

DATA = work.CARD.open_dataset()


def doubts(images: np.ndarray) -> tuple[str, ...]:
    values = {CARD: work.CARD, DATASET: DATA, EVALUATION_SAMPLES: 100, SAMPLES: {"image": images}}
    found: tuple[str, ...] = work.given_by(LOOK_AT_DATA, values)[DOUBTS]
    return found


def test_images_of_the_calibration_split_are_beyond_doubt() -> None:
    assert doubts(DATA.split(work.CARD.dataset.calibration.split).images(0, 100)) == ()


def test_what_is_evaluated_is_compared() -> None:
    images = DATA.split(work.CARD.dataset.calibration.split).images(0, 30)
    (found,) = doubts(255 - images)
    assert "calibration and evaluation data are distributed differently" in found
    few, *copies = doubts(images[[0] * 4])
    assert few.startswith("4 calibration samples are few")
    assert "3 of 4 samples are copies of others" in copies[0]
