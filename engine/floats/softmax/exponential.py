"""Numbers of the float32 exponential that a Softmax takes: that of the Cephes library, as Eigen has it for vectors."""

from __future__ import annotations

import numpy as np

LOWEST = np.float32(-88.3762626647949)
"""Exponents below it count as it."""
LOWEST_POWER = -127
"""The power of two that belongs to :data:`LOWEST`: there the exponential is 0."""
LOG2_E = np.float32(1.44269504088896341)
HALF = np.float32(0.5)
ONE = np.float32(1)
ROUNDING = np.float32(12582912.0)
"""1.5 * 2^23: adding and subtracting it rounds to a whole number."""
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
POLYNOMIAL = tuple(
    np.float32(factor)
    for factor in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
"""Of ``(e^x - 1 - x) / x^2`` between -ln 2 / 2 and ln 2 / 2, the highest power first."""
ONE_BITS, MANTISSA_BITS = 0x3F800000, 23
"""1.0 as bits, and the place of a float32's exponent."""
SUMS = 4
"""Sums of a row that run side by side."""
