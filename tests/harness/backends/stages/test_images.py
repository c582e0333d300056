"""Which images are calibrated with, and in which form."""

from __future__ import annotations

import numpy as np
import pytest

from engine.convert.items import DATA
from engine.errors import ConfigError
from harness.backends.items import CALIBRATION_USE, CARD, DATA_DIGEST, DATASET, SAMPLES
from harness.backends.stages.images import FEED, OPEN_DATASET, TAKE_IMAGES
from harness.backends.values import CalibrationUse
from tests.card_images import trained
from tests.harness.backends.stages import work

DATASET_OF_CARD = work.CARD.open_dataset()
SPLIT = DATASET_OF_CARD.split(work.CARD.dataset.calibration.split)


def taken(use: CalibrationUse) -> np.ndarray:
    given = work.given_by(TAKE_IMAGES, {CARD: work.CARD, DATASET: DATASET_OF_CARD, CALIBRATION_USE: use})
    found: np.ndarray = given[SAMPLES]["image"]
    return found


def test_without_a_seed_the_first_images_are_taken() -> None:
    np.testing.assert_array_equal(taken(CalibrationUse(7, None)), SPLIT.images(0, 7))


def test_a_seed_draws_among_the_card_s_images_without_replacement_in_their_order() -> None:
    count = work.CARD.dataset.calibration.count
    drawn = sorted(np.random.RandomState(5).choice(count, 9, replace=False).tolist())
    np.testing.assert_array_equal(taken(CalibrationUse(9, 5)), SPLIT.images()[drawn])
    assert not np.array_equal(taken(CalibrationUse(9, 6)), taken(CalibrationUse(9, 5)))
    np.testing.assert_array_equal(taken(CalibrationUse(count, 1)), SPLIT.images(0, count))


def test_data_that_have_changed_are_refused() -> None:
    found = work.given_by(OPEN_DATASET, {CARD: work.CARD, DATA_DIGEST: DATASET_OF_CARD.digest})
    assert found[DATASET].digest == DATASET_OF_CARD.digest
    with pytest.raises(ConfigError, match="model mnist_lenet: its data set has changed during the sweep"):
        work.given_by(OPEN_DATASET, {CARD: work.CARD, DATA_DIGEST: "0" * 64})


def test_the_engine_is_fed_with_images_in_the_training_format() -> None:
    images = SPLIT.images(0, 3)
    data = work.given_by(FEED, {CARD: work.CARD, SAMPLES: {"image": images}})[DATA]
    assert len(data) == 3
    (fed,) = data.read(0, 3).values()
    expected = trained(work.CARD, images).astype(np.float32) - 128  # as the board's input
    np.testing.assert_array_equal(np.asarray(fed, np.float32), expected)
