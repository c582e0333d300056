"""The estimate of a reciprocal root, and what takes its place elsewhere."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.floats.estimate import ESTIMATES, make_reciprocal_root
from tests.cpu import needs_cpu


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_cpu(ESTIMATES, "x86-64"))])
def test_it_is_good_to_twelve_bits(native: bool) -> None:
    root = make_reciprocal_root(native)

    @numba.njit
    def estimate(x: float) -> float:
        return root(x)

    values = np.geomspace(1e-30, 1e30, 200).astype(np.float32)
    found = np.array([estimate(value) for value in values])
    exact = 1 / np.sqrt(values.astype(np.float64))
    assert np.abs(found / exact - 1).max() <= (1.5 * 2.0**-12 if native else 2.0**-22)
