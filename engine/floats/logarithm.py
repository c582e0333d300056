"""The natural logarithm of float32 in the original's runtime: that of the Cephes library, as Eigen vectorises it."""

from __future__ import annotations

import numpy as np

from engine.floats.softmax.exponential import HALF, LN2_HIGH, LN2_LOW, MANTISSA_BITS, ONE
from engine.jit import compiled

_ROOT_OF_HALF = np.float32(0.707106781186547524)
POLYNOMIAL = tuple(
    np.float32(factor)
    for factor in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
"""Of ``(ln(1 + x) - x + x^2 / 2) / x^3`` of the Cephes library, the highest power first."""
_L = POLYNOMIAL
_FRACTION, _BIAS, _HALF_BITS = 0x007FFFFF, 127, 0x3F000000
"""Bits below a float32's exponent, what the exponent of 1 is as bits, and 0.5 as bits."""
_LEAST_NORMAL = np.float32(2.0**-126)


@compiled
def eigens_logarithm(x: np.float32) -> np.float32:
    """The natural logarithm of one number as Eigen's vectors have it."""
    if not x > np.float32(0):
        return np.float32(-np.inf) if x == np.float32(0) else np.float32(np.nan)
    if x == np.float32(np.inf):
        return x
    bits = np.float32(max(x, _LEAST_NORMAL)).view(np.int32)
    power = np.float32((bits >> MANTISSA_BITS) - _BIAS + 1)
    z = np.int32((bits & _FRACTION) | _HALF_BITS).view(np.float32)
    if z < _ROOT_OF_HALF:
        power -= ONE
        z = (z - ONE) + z
    else:
        z = z - ONE
    square = z * z
    cube = square * z
    a = (_L[0] * z + _L[1]) * z + _L[2]
    b = (_L[3] * z + _L[4]) * z + _L[5]
    c = (_L[6] * z + _L[7]) * z + _L[8]
    value = ((a * cube + b) * cube + c) * cube
    value = value + LN2_LOW * power
    return ((z - square * HALF) + value) + LN2_HIGH * power
