"""Outputs of a trial that no longer say what the float model's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.convert.items import CALIBRATED, OPTIMIZED, QUANTIZED
from engine.debug.bisection.breaks import Break
from harness.backends.items import BROKEN, CARD, DATASET, FLOAT_OUTPUTS, OUTPUTS
from harness.backends.stages import broken
from harness.backends.stages.broken import LOOK_AT_FOREIGN_OUTPUTS, LOOK_AT_OUTPUTS
from harness.trials.comparison import FidelityMeter
from harness.trials.figures import BrokenOutputs
from tests.harness.backends.stages import work

COUNT = 20
FLOATS = np.random.default_rng(0).normal(size=(COUNT, 10)).astype(np.float32)
(OUTPUT,) = work.CARD.output_names()


def values(ours: np.ndarray) -> dict[Any, Any]:
    meter = FidelityMeter()
    meter.update([ours], [FLOATS])
    return {CARD: work.CARD, OUTPUTS: ([ours], meter), FLOAT_OUTPUTS: [FLOATS]}


def test_good_outputs_are_not_named() -> None:
    given = work.given_by(LOOK_AT_FOREIGN_OUTPUTS, values(FLOATS + np.float32(0.01)))
    assert given[BROKEN] == BrokenOutputs()


def test_outputs_of_another_engine_are_named_without_a_node() -> None:
    found = work.given_by(LOOK_AT_FOREIGN_OUTPUTS, values(-FLOATS))[BROKEN]
    assert found.outputs == (OUTPUT,)
    assert found.text == (
        f"Output {OUTPUT} of the integer model is broken: its cosine to the float model is -1.0000 (floor 0.95); "
        "its SQNR is -6.0 dB (floor 10 dB)."
    )


def test_the_node_is_looked_for_on_the_worst_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only image 7 breaks in the middle, and it is fed as the engine takes it."""
    ours, fed = FLOATS.copy(), []
    ours[7] = -5 * FLOATS[7]

    def first_break(*stages: Any) -> Break:
        fed.append(stages)
        return Break("conv", "Conv", 2.0, 30.0)

    monkeypatch.setattr(broken, "first_break", first_break)
    dataset = work.CARD.open_dataset()
    graphs = {OPTIMIZED: "o", CALIBRATED: "c", QUANTIZED: "q"}
    found = work.given_by(LOOK_AT_OUTPUTS, {**values(ours), DATASET: dataset, **graphs})[BROKEN]
    assert "It breaks at node conv (Conv)" in found.text
    ((*stages, feed),) = fed
    assert stages == ["o", "c", "q"]
    (image,) = feed.values()
    picture = dataset.split(work.CARD.dataset.evaluation.split).images(7, 8)
    assert sorted(image.reshape(-1).tolist()) == sorted((picture.astype(np.float32) - 128).reshape(-1).tolist())
