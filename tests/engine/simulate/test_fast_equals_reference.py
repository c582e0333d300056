"""The fast simulator gives the reference's bits: standard operators, networks, any batch, any number of threads.

``tests/properties/test_operators.py`` has the quantised operators.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ir import load_model
from engine.native.registers import REGISTERS
from engine.simulate import Session
from engine.simulate.fast import FastSimulator
from engine.simulate.lowering import convolution
from tests.engine.simulate import strategies as cases
from tests.engine.simulate.equality import check
from tests.engine.simulate.models import node_model
from tests.engine.simulate.strategies import NodeCase
from tests.golden_cases import BUNDLED, GoldenCase, conversion_cases


@given(case=cases.standard_nodes())
def test_standard_operator(case: NodeCase) -> None:
    check(case)


@given(
    case=st.one_of(
        cases.softmaxes(),
        cases.arithmetic(),
        cases.casts(),
        cases.rectifiers(),
        cases.float_blocks(),
        cases.float_convolutions(),
        cases.float_pads(),
        cases.float_pools(),
        cases.float_resizes(),
        cases.recurrent_cells(),
    )
)
def test_float_operator(case: NodeCase) -> None:
    check(case)


@given(case=cases.convolutions())
def test_convolution_without_dot_products_of_quads(case: NodeCase) -> None:
    """The kernels of machines that have none, on those that do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "REGISTERS", replace(REGISTERS, quads=False))
        check(case)


@given(
    case=st.sampled_from(conversion_cases(BUNDLED)),
    split=st.integers(0, 7),
    threads=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_networks_do_not_depend_on_batches_or_threads(case: GoldenCase, split: int, threads: int, seed: int) -> None:
    session = Session(case.model, threads=threads)
    (info,) = session.inputs
    samples = np.random.default_rng(seed).integers(-128, 128, (7, *info.shape[1:])).astype(info.dtype)
    together = session.run({info.name: samples})
    parts = [session.run({info.name: part}) for part in (samples[:split], samples[split:]) if len(part)]
    for name, array in together.items():
        np.testing.assert_array_equal(array, np.concatenate([part[name] for part in parts]))


def test_result_without_elements() -> None:
    """Pads that cut away everything: found by the property above."""
    attributes = {
        "kernel_shape": (1, 3),
        "pads": [0, 2, 0, 2],
        "strides": (1, 1),
        "accu_right_shift": [13],
        "y_quant_scale": [27873],
        "y_right_shift": [30],
    }
    constants = {1: np.full((1, 1, 3, 1), 7, np.int8), 2: np.array([5], np.int32)}
    check(NodeCase("HzSQuantizedConvTranspose", {0: np.ones((2, 1, 2, 2, 1), np.int8)}, attributes, constants))


def test_one_simulator_serves_several_callers() -> None:
    """Calls from several threads at once, single samples among them, neither mix nor wait for each other for ever."""
    (case,) = [case for case in conversion_cases(BUNDLED) if str(case) == "p_rgb"]
    simulator = FastSimulator(load_model(case.model), threads=4)
    (info,) = simulator.inputs
    rng = np.random.default_rng(0)
    feeds = [rng.integers(-128, 128, (count, *info.shape[1:])).astype(info.dtype) for count in (1, 2, 3, 5) * 8]
    expected = [simulator.run({info.name: feed})["y"] for feed in feeds]
    with ThreadPoolExecutor(6) as callers:
        actual = list(callers.map(lambda feed: simulator.run({info.name: feed})["y"], feeds))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


class IdlePool:
    """Threads that the operating system never runs."""

    def submit(self, *_: Any) -> Future[None]:
        return Future()


def test_nobody_waits_for_helpers_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine every instruction once took a time slice of every thread."""
    (case,) = [case for case in conversion_cases(BUNDLED) if str(case) == "p_rgb"]
    model = load_model(case.model)
    simulator = FastSimulator(model, threads=3)
    monkeypatch.setattr("engine.simulate.pace.ENOUGH_WORK", 0.0)
    monkeypatch.setattr(simulator._team, "_pool", IdlePool())
    (info,) = simulator.inputs
    feed = {info.name: np.random.default_rng(0).integers(-128, 128, info.shape).astype(info.dtype)}
    np.testing.assert_array_equal(simulator.run(feed)["y"], FastSimulator(model, threads=1).run(feed)["y"])


def test_an_interrupt_leaves_no_thread_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the start of the helpers and this thread's own share once kept the process alive for ever."""
    (case,) = [case for case in conversion_cases(BUNDLED) if str(case) == "p_rgb"]
    simulator = FastSimulator(load_model(case.model), threads=3)
    (info,) = simulator.inputs
    feed = {info.name: np.random.default_rng(0).integers(-128, 128, info.shape).astype(info.dtype)}
    expected = simulator.run(feed)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.simulate.pace.ENOUGH_WORK", 0.0)
    monkeypatch.setattr("engine.simulate.team.run_with", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulator.run(feed)
    assert simulator._workplaces.qsize() == 1
    monkeypatch.undo()
    np.testing.assert_array_equal(simulator.run(feed)["y"], expected["y"])


def test_accumulator_wraps_like_int32() -> None:
    """A bias near the limit pushes the sum over 2^31: both simulators wrap."""
    x, w = np.full((1, 1, 1, 2000), -128, np.int8), np.full((3, 1, 1, 2000), -128, np.int8)
    bias = np.array([2**31 - 1, 2**31 - 2000 * 128 * 128, 0], np.int32)
    model = node_model(
        "HzSQuantizedConv",
        [x],
        {"kernel_shape": [1, 1], "output_bit": 32, "high_precision_output": 1},
        {1: w, 2: bias, 3: np.zeros(3, np.int8)},
        output=(np.int32, (1, 1, 1, 3)),
    )
    total = 2000 * 128 * 128
    wrapped = [-(2**31) + total - 1, -(2**31), total]
    for mode in ("reference", "fast"):
        assert Session(model, mode=mode).run({"x0": x})["y"].ravel().tolist() == wrapped
