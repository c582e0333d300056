"""Variants: only what they change is computed, and the result is that of the whole model."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from engine.calibrate import FloatSession
from engine.debug.analysis.variants import FLOAT, VariantRunner, dynamic_values, switch, watchers
from engine.errors import InferenceError
from engine.floats.switched import SwitchedSample
from engine.ir import calibration_nodes, read_calibration
from tests.engine.calibrate.models import DATA, calibrated_residual, residual

FETCH = ("c0", "r0", "y")


def seen(feed: dict[str, np.ndarray], variants: list[frozenset[str]], threads: int | None = None) -> dict:
    """Arrays of a variant and of the float model, a pair per sample, by index of the variant and tensor."""
    found: dict[tuple[int, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    runner = VariantRunner(calibrated_residual(), FETCH, threads=threads)
    for results in runner.run(feed, variants, lambda name, actual, expected: (actual.copy(), expected.copy())):
        for index, tensors in enumerate(results):
            for name, pair in tensors.items():
                found.setdefault((index, name), []).append(pair)
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


def test_samples_come_one_at_a_time_and_the_share_that_is_done_grows_to_1() -> None:
    shares: list[float] = []
    runner = VariantRunner(calibrated_residual(), ["y"], threads=2)
    every = [frozenset({str(node.name)}) for node in calibration_nodes(calibrated_residual())]
    found = list(runner.run(DATA, every, lambda name, actual, expected: actual.shape, shares.append))
    assert [{shape for tensors in sample for shape in tensors.values()} for sample in found] == [{(1, 4)}] * 10
    assert len(shares) == 10 * len(every)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    """What a sample needs is let go before the next one."""
    runner = VariantRunner(calibrated_residual(), ["y"], threads=1)
    alive: list[weakref.ref[SwitchedSample]] = []
    made = runner._model.on

    def watched(feed: dict[str, np.ndarray]) -> Iterator[SwitchedSample]:
        for sample in made(feed):
            assert sum(other() is not None for other in alive) <= 1
            alive.append(weakref.ref(sample))
            yield sample

    runner._model.on = watched
    assert len(list(runner.run(DATA, [FLOAT], lambda name, actual, expected: 0))) == 10


def test_parts_of_a_work_add_up() -> None:
    shares: list[float] = []
    first, second = watchers(shares.append, (1, 3))
    for watch, share in ((first, 0.5), (first, 1.0), (second, 0.5), (second, 1.0)):
        watch(share)
    assert shares == [0.125, 0.25, 0.625, 1.0]


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
