"""The search for int16 nodes under a latency budget, and the scores that it goes by."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate import ArrayData, CalibrationOptions
from engine.compile import CompileOptions, compile_model
from engine.perf import estimate
from engine.place import PlacementOptions
from engine.tune import Budget, Evaluator, MixedPrecisionSearch, TuningResult
from tests.engine.calibrate.models import residual

DATA = ArrayData({"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)})


def latency(quantized: ir.Model) -> float:
    return estimate(compile_model(quantized, "bayes-e", CompileOptions(), "m")).latency_us


def search(**options: object) -> TuningResult:
    model = residual()
    subject = MixedPrecisionSearch(
        model, "bayes-e", DATA, CalibrationOptions(), PlacementOptions(), Evaluator(model, DATA), latency
    )
    return subject.run(Budget(**options))  # type: ignore[arg-type]  # the fields of Budget


def test_the_float_model_scores_one() -> None:
    score = Evaluator(residual(), DATA).floating(residual())
    assert (score.cosine, score.worst_cosine, score.agreement) == (pytest.approx(1), pytest.approx(1), 1.0)


def test_the_choice_is_no_worse_than_int8_and_in_the_budget() -> None:
    found = search(latency_us=1e9)
    assert found.chosen.score.cosine >= found.int8.score.cosine
    assert found.chosen == found.ceiling
    assert set(found.fragment()["model_parameters"]["node_info"]) == set(found.chosen.int16)


def test_nothing_fits_a_budget_of_nothing() -> None:
    found = search(latency_us=0.0)
    assert found.chosen == found.int8
    assert found.fragment() == {}
    assert {name for name, _ in found.ranking} >= {"conv0", "conv1"}


def test_trials_and_minutes_end_the_search() -> None:
    assert search(latency_us=0.0, trials=3).trials == 3
    assert search(latency_us=0.0, minutes=0.0).trials == 2


def test_the_fragment_asks_for_what_was_chosen() -> None:
    found = search()
    types = found.fragment().get("model_parameters", {}).get("node_info", {})
    assert set(types) == set(found.chosen.int16)
    assert all(value == {"ON": "BPU", "InputType": "int16", "OutputType": "int16"} for value in types.values())
