"""Numbers of the float32 exponential that a Softmax takes, ONNX Runtime's own."""

from __future__ import annotations

import numpy as np

LOWEST = np.float32(-88.3762626647949)
"""Exponents below it count as it."""
LOWEST_POWER = -127
"""The power of two that belongs to :data:`LOWEST`: there the exponential is 0."""
LOG2_E = np.float32(1.44269504088896341)
ROUNDING = np.float32(12582912.0)
"""1.5 * 2^23: adding and subtracting it rounds to a whole number."""
LN2_HIGH, LN2_LOW = np.float32(-6.93145752e-1), np.float32(-1.42860677e-6)
POLYNOMIAL = tuple(
    np.float32(float.fromhex(text))
    for text in ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0")
)
"""Of the exponential between -ln 2 / 2 and ln 2 / 2, the highest power first."""
ONE_BITS, MANTISSA_BITS = 0x3F800000, 23
"""1.0 as bits, and the place of a float32's exponent."""
SUMS = 4
"""Sums of a row that run side by side."""
