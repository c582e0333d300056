"""The float model's outputs: of the card, for as many images as are evaluated."""

from __future__ import annotations

import numpy as np
import pytest

from engine.convert.items import THREADS
from harness.backends.items import CARD, DATA_DIGEST, EVALUATION_SAMPLES, FLOAT_OUTPUTS
from harness.backends.stages import floats
from harness.backends.stages.floats import RUN_FLOAT
from tests.harness.backends.stages import work


def test_outputs_are_of_the_card_and_of_so_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, int, int]] = []

    def outputs(card: object, count: int, threads: int) -> list[np.ndarray]:
        asked.append((card, count, threads))
        return [np.ones(count)]

    monkeypatch.setattr(floats, "float_outputs", outputs)
    found = work.given_by(RUN_FLOAT, {CARD: work.CARD, EVALUATION_SAMPLES: 3, THREADS: 2})
    assert asked == [(work.CARD, 3, 2)]
    assert found[FLOAT_OUTPUTS][0].tolist() == [1, 1, 1]


def test_other_data_are_computed_anew() -> None:
    """The key follows from what is declared; the data set is opened by the card, so its digest must be."""
    assert set(RUN_FLOAT.reads) == {CARD, DATA_DIGEST, EVALUATION_SAMPLES, THREADS}
