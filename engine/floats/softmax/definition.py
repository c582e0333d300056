"""Softmax in float32 as calibration and both simulators compute it: on every CPU the same bits.

ONNX Runtime sums in vectors of four, eight or sixteen, whichever the CPU has, and so gives other last bits on other
machines. Here it is the original toolchain's: Eigen's exponential in vectors of four, no product being one with a sum,
and the sums of its products of matrices. Asked of its runtime with rows of 1 to 1,000 numbers (45 nodes, 13,794
numbers; ``tests/parity/test_softmax.py``): all bits are equal but those of up to three numbers at the end of a tensor
whose count four does not divide, which take the C library's exponential there and rarely differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.floats.softmax.exponential import (
    HALF,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOWEST,
    MANTISSA_BITS,
    ONE,
    ONE_BITS,
    POLYNOMIAL,
    SUMS,
)

Floats = NDArray[np.float32]


def softmax_over(x: Floats, axes: Sequence[int]) -> Floats:
    """Softmax over ``axes``, one or neighbours, by :func:`softmax_rows`; the shape of ``x``."""
    rows = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    result = softmax_rows(rows.reshape(-1, math.prod(rows.shape[x.ndim - len(axes) :]))).reshape(rows.shape)
    return np.ascontiguousarray(np.moveaxis(result, range(x.ndim - len(axes), x.ndim), axes))


def softmax_rows(x: Floats) -> Floats:
    """Softmax of every row.

    The powers of ``x - max`` are summed in four sums that run side by side; the first and third, the second and fourth
    are added, then both, then the sum of what no four numbers are left of. The powers are multiplied by the sum's
    reciprocal.

    Args:
        x: float32, shape (rows, n).

    Returns:
        float32, the same shape; NaN in rows whose largest number is infinite or undefined, or that hold a NaN.
    """
    with np.errstate(all="ignore"):
        powers = exponential(x - x.max(axis=1, keepdims=True, initial=-np.inf))
        whole = x.shape[1] - x.shape[1] % SUMS
        sums = np.zeros((len(x), SUMS), np.float32)
        for start in range(0, whole, SUMS):
            sums += powers[:, start : start + SUMS]
        left = np.zeros(len(x), np.float32)
        for index in range(whole, x.shape[1]):
            left += powers[:, index]
        total = ((sums[:, 0] + sums[:, 2]) + (sums[:, 1] + sums[:, 3])) + left
        return np.asarray(powers * (ONE / total)[:, None])


def exponential(x: Floats) -> Floats:
    """e^x for x up to 0: a polynomial times a power of two; 0 below about -87.7."""
    x = np.maximum(x, LOWEST)
    power = np.floor(x * LOG2_E + HALF)
    rest = x - power * LN2_HIGH
    rest = rest - power * LN2_LOW
    value = np.full_like(x, POLYNOMIAL[0])
    for factor in POLYNOMIAL[1:]:
        value = value * rest + factor
    value = value * (rest * rest) + rest
    value = value + ONE
    bits = np.nan_to_num(power).astype(np.int32) << MANTISSA_BITS
    return np.asarray(value * (bits + np.int32(ONE_BITS)).view(np.float32))
