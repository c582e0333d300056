"""The numbers of the exponential."""

from __future__ import annotations

import math

import numpy as np

from engine.floats.softmax.exponential import (
    HALF,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOWEST,
    LOWEST_POWER,
    POLYNOMIAL,
    ROUNDING,
)


def test_the_numbers_belong_together() -> None:
    assert abs(float(LN2_HIGH) + float(LN2_LOW) - math.log(2)) < 1e-11
    assert abs(float(LOG2_E) * math.log(2) - 1) < 1e-7
    assert np.floor(LOWEST * LOG2_E + HALF) == LOWEST_POWER
    assert np.float32(1.5 * 2**23) == ROUNDING


def test_the_polynomial_is_near_the_exponential() -> None:
    x = np.linspace(-math.log(2) / 2, math.log(2) / 2, 1001)
    inner = np.polyval(np.array(POLYNOMIAL, np.float64), x)
    np.testing.assert_allclose(inner * x**2 + x + 1, np.exp(x), rtol=2e-7)
