"""Softmax in float32 as both simulators compute it: on every CPU the same bits.

ONNX Runtime sums in vectors of four, eight or sixteen, whichever the CPU has, and so gives other last bits on other
machines. Here it is always four with fused multiply-adds, the order with which the thresholds behind a Softmax are the
original toolchain's (:mod:`engine.floats.own_arithmetic`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.floats.fused import fused
from engine.floats.softmax.exponential import (
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOWEST,
    MANTISSA_BITS,
    ONE_BITS,
    POLYNOMIAL,
    ROUNDING,
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
    are added, then both, then what no four numbers are left of. The powers are multiplied by the sum's reciprocal.

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
        total = (sums[:, 0] + sums[:, 2]) + (sums[:, 1] + sums[:, 3])
        for index in range(whole, x.shape[1]):
            total += powers[:, index]
        return np.asarray(powers * (np.float32(1) / total)[:, None])


def exponential(x: Floats) -> Floats:
    """e^x for x up to 0: a polynomial times a power of two; 0 where that is below the normal numbers."""
    x = np.maximum(x, LOWEST)
    shifted = fused(x, LOG2_E, ROUNDING)
    power = shifted - ROUNDING
    rest = fused(power, LN2_LOW, fused(power, LN2_HIGH, x))
    value = np.full_like(x, POLYNOMIAL[0])
    for factor in POLYNOMIAL[1:]:
        value = fused(value, rest, factor)
    scale = ((shifted.view(np.int32) << MANTISSA_BITS) + np.int32(ONE_BITS)).view(np.float32)
    return np.asarray(value * scale)
