"""The compiled loops of float networks: built ones compute the bits of numba's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.floats.compiled import LOOPS
from engine.native.loops import Loop
from engine.native.prebuilt import supported
from engine.native.registers import LEVEL
from tests.engine.native.agreement import assert_built_as_compiled, assert_loops_fit


def test_names_differ_and_every_loop_has_a_function_of_as_many_arguments() -> None:
    assert_loops_fit(LOOPS)


def _drawn(loop: Loop) -> list[Any]:
    """Arguments that ``loop`` can be called with, of numbers drawn with seed 0."""
    rng = np.random.default_rng(0)
    floats = rng.normal(scale=3, size=(6, 50, 70)).astype(np.float32)
    flat = floats.reshape(-1)
    match loop.name:
        case "swish" | "gelu":
            return [flat, np.zeros(1024, np.int64), np.zeros_like(flat)]
        case "rsqrt":
            return [np.abs(flat), np.asarray([1e-5, 0.5], np.float32), np.zeros_like(flat)]
        case "root":
            return [np.abs(flat[:-1]), np.zeros_like(flat[:-1])]
        case "exponential" | "softplus" | "mish" | "logarithm":
            return [flat[:-1], np.zeros_like(flat[:-1])]
        case "elu":
            return [flat, np.float32(0.7), np.zeros_like(flat)]
        case "selu":
            return [flat[:-1], np.asarray([1.6, 1.1], np.float32), np.zeros_like(flat[:-1])]
        case "response_normalisation":
            return [flat.reshape(300, 70), np.asarray([0.1, 0.75, 1], np.float32), 2, np.zeros((300, 70), np.float32)]
        case "softmax_rows" | "log_softmax_rows":
            return [flat.reshape(300, 70), np.zeros((300, 70), np.float32)]
        case "softmax_along":
            return [flat.reshape(30, 70, 10), np.zeros((30, 70, 10), np.float32)]
        case "sums_of_columns" | "products_of_columns":
            return [flat.reshape(300, 70), np.zeros(70, np.float32)]
        case "depthwise_maps":
            steps, bounds = np.array([1, 2, 1, 1, 1, 1, 3, 3]), np.array([-4, 5], np.float32)
            planes, sums = np.zeros(2 * 52 * 36, np.float32), np.zeros(49 * 36 + 35, np.float32)
            weight, bias = rng.normal(size=(6, 9)).astype(np.float32), rng.normal(size=6).astype(np.float32)
            room = planes, np.zeros(9, np.int64), sums
            return [floats, weight, bias, steps, bounds, *room, np.zeros((6, 50, 35), np.float32)]
    raise AssertionError(f"no arguments for {loop.name}")


@pytest.mark.skipif(LEVEL is None or not supported(), reason="kernels are compiled on first use on this platform")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_built_loops_compute_the_bits_of_numbas(loop: Loop) -> None:
    assert_built_as_compiled(loop, _drawn)
