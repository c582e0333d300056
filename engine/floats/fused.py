"""``a * b + c`` of float32, rounded once: the definition that :mod:`engine.floats.multiply_add` compiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def fused(a: Floats, b: Floats | np.float32, c: Floats | np.float32) -> Floats:
    """``a * b + c`` rounded once to float32.

    The product is exact in float64. The sum is rounded there to an odd last bit, so that rounding it again to float32
    gives what a single rounding does (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    product = a.astype(np.float64) * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = total.view(np.int64)
    inexact = ((error < 0) | (error > 0)) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + np.where(inexact, step, 0)).view(np.float64).astype(np.float32)
