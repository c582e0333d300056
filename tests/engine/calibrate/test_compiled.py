"""The compiled loops of statistics: built ones compute the bits of numba's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.calibrate.compiled import LOOPS
from engine.calibrate.statistics.bits import COUNTED, LANES
from engine.calibrate.statistics.distribution import Histogram
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
    flat, bits = floats.reshape(-1), floats.view(np.int32)
    counts = rng.poisson(40 * np.exp(-np.arange(1024) / 200)).astype(np.float64)
    match loop.name:
        case "channel_peaks":
            return [bits, np.zeros(50, np.int32), np.zeros(1, np.int32)]
        case "keep_larger":
            return [bits.reshape(-1), np.zeros(4096, np.int32), np.zeros(2, np.int64), np.float32(6).view(np.int32)]
        case "count":
            return [flat, np.float32(12.0 / 900), np.zeros(LANES * 1025, np.int64), np.empty(COUNTED, np.uint32)]
        case "divergences":
            room = np.zeros(1024), np.zeros(1025), np.zeros(1025, np.int64)
            return [counts, *room, np.zeros(1024 - 128)]
        case "least_cut":
            counts[0] = 0
            room = np.zeros(1025), np.zeros(1025, np.int64), np.zeros(1024 - 128, np.float32)
            shares = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
            return [counts, Histogram(counts.astype(np.int64), 1.0).divergences, *room, *shares, np.zeros(1, np.int64)]
    raise AssertionError(f"no arguments for {loop.name}")


@pytest.mark.skipif(LEVEL is None or not supported(), reason="kernels are compiled on first use on this platform")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_built_loops_compute_the_bits_of_numbas(loop: Loop) -> None:
    assert_built_as_compiled(loop, _drawn)
