"""The numbers of the exponential."""

from __future__ import annotations

import math

import numpy as np

from engine.floats.softmax.exponential import LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, POLYNOMIAL, ROUNDING


def test_the_numbers_belong_together() -> None:
    assert abs(float(LN2_HIGH) + float(LN2_LOW) + math.log(2)) < 1e-12
    assert abs(float(LOG2_E) * math.log(2) - 1) < 1e-7
    assert round(float(LOWEST) * float(LOG2_E)) == -127
    assert np.float32(1.5 * 2**23) == ROUNDING


def test_the_polynomial_is_near_the_exponential() -> None:
    x = np.linspace(-math.log(2) / 2, math.log(2) / 2, 1001)
    np.testing.assert_allclose(np.polyval(np.array(POLYNOMIAL, np.float64), x), np.exp(x), rtol=2e-7)
