"""Variants: only what they change is computed, and the result is that of the whole model."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import FloatSession
from engine.debug.analysis import variants as module
from engine.debug.analysis.variants import FLOAT, VariantRunner, _cut, dynamic_values, switch
from engine.errors import InferenceError
from engine.ir import calibration_nodes, read_calibration
from tests.engine.calibrate.models import DATA, add_calibration, calibrated_residual, residual

FETCH = ("c0", "r0", "y")


def seen(feed: dict[str, np.ndarray], variants: list[frozenset[str]], threads: int | None = None) -> dict:
    found: dict[tuple[int, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    runner = VariantRunner(calibrated_residual(), FETCH, threads=threads)
    runner.run(feed, variants, lambda name, i, a, b: found.setdefault((i, name), []).append((a.copy(), b.copy())))
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_the_switched_model(threads: int) -> None:
    every = frozenset(str(node.name) for node in calibration_nodes(calibrated_residual()))
    variants = [FLOAT, frozenset({"r0_HzCalibration"}), every]
    found = seen(DATA, variants, threads)
    exact = FloatSession(residual(), ["c0", "r0", "y"]).run(DATA)
    for index, variant in enumerate(variants):
        model = calibrated_residual()
        switch(model, variant)
        wanted = FloatSession(model, ["c0", "r0", "y"]).run(DATA)
        for name in FETCH:
            actual, floats = (np.concatenate(arrays) for arrays in zip(*found[index, name], strict=True))
            np.testing.assert_allclose(actual, wanted[name], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(floats, exact[name], rtol=1e-5, atol=1e-5)


def test_samples_come_one_at_a_time_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = seen(DATA, [FLOAT])[0, "y"]
    assert len(whole) == 10
    monkeypatch.setattr(module, "MEMORY", 1)
    alone = seen(DATA, [FLOAT])[0, "y"]
    for (first, _), (second, _) in zip(whole, alone, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_samples_that_are_computed_together_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = VariantRunner(calibrated_residual(), FETCH)
    size = 4 * sum(int(np.prod(shape)) for segment in runner._segments for shape, _ in segment.outputs.values())
    for memory, expected in ((size - 1, 1), (3 * size, 3), (100 * size, 8)):
        monkeypatch.setattr(module, "MEMORY", memory)
        assert runner._samples_at_once() == expected


def test_a_segment_reaches_to_the_next_calibrated_tensor() -> None:
    model = residual()
    for name in ("x", "r0"):
        add_calibration(model, name, thresholds=[1.0], scales=[0.1])
    segments = list(_cut(model, ["y"]))
    assert next(segment.inputs for segment in segments) == ("x",)
    assert [sorted(segment.calibrations) for segment in segments if segment.calibrations] == [
        ["x_HzCalibration"],
        ["r0_HzCalibration"],
    ]


def test_only_what_is_named_quantises() -> None:
    model = calibrated_residual()
    switch(model, ["r0_HzCalibration"])
    on = [node.name for node in calibration_nodes(model) if read_calibration(node).switch == "ON"]
    assert on == ["r0_HzCalibration"]


def test_weights_do_not_depend_on_inputs() -> None:
    names = {value.name for value in dynamic_values(calibrated_residual().graph)}
    assert {"x", "x_calibrated", "c0", "y"} <= names
    assert "w0_calibrated" not in names


@pytest.mark.parametrize(
    ("feed", "message"),
    [({}, "inputs given"), ({"x": DATA["x"], "z": DATA["x"]}, "inputs given")],
)
def test_inputs_of_other_names(feed: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InferenceError, match=message):
        seen(feed, [FLOAT])


def test_tensors_that_no_node_computes() -> None:
    with pytest.raises(InferenceError, match=r"not computed by any node of the model: \['absent', 'w0_calibrated'\]"):
        VariantRunner(calibrated_residual(), ["absent", "w0_calibrated"])
