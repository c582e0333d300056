"""The stages that compare with the float model: on the first sample, and on all."""

from __future__ import annotations

import pytest

from engine.calibrate import ArrayData
from engine.convert.stages.compare import COMPARE, MEASURE
from engine.floats.compare import compare
from tests.engine.calibrate.models import DATA, calibrated_residual, residual
from tests.engine.convert.work import configured, ran


def test_the_calibrated_model_is_compared_on_the_first_sample() -> None:
    calibrated = calibrated_residual()
    found = ran(COMPARE, configured(), reference=residual(), calibrated=calibrated, data=ArrayData(DATA))
    first = compare(residual(), calibrated, {"x": DATA["x"][:1]})
    assert found["comparison"].outputs["y"] == first.outputs["y"]
    other = compare(residual(), calibrated, {"x": DATA["x"][1:2]})
    assert found["comparison"].outputs["y"] != other.outputs["y"]


def test_without_data_nothing_is_compared() -> None:
    found = ran(COMPARE, configured(), reference=residual(), calibrated=residual())["comparison"]
    assert (found.nodes, found.outputs) == ({}, {})
    assert ran(MEASURE, configured(), optimized_float=residual(), quantized=residual()) == {"integer_distances": {}}


def test_integers_are_compared_with_the_optimised_model_on_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "engine.evaluate.similarity.integer_distances", lambda *models, threads: asked.append((models, threads)) or "d"
    )
    found = ran(MEASURE, configured(), optimized_float="o", quantized="q", data="all", seen_outputs="s", threads=3)
    assert (found, asked) == ({"integer_distances": "d"}, [(("o", "q", "all", "s"), 3)])
