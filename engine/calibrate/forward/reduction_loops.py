"""Float32 reductions in a given order of sums, compiled, for :mod:`engine.calibrate.forward.own_arithmetic`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]

_LANES = 4
"""Numbers that are summed side by side, and taken at a time."""
_LOWEST = np.float32(-88.3762626647949)
"""Exponents below it count as it: the exponential stays a normal number."""
_LOG2_E = np.float32(1.44269504088896341)
_ROUNDING = np.float32(12582912.0)
"""1.5 * 2^23: adding and subtracting it rounds to a whole number."""
_LN2_HIGH, _LN2_LOW = np.float32(-6.93145752e-1), np.float32(-1.42860677e-6)
_POLYNOMIAL = np.array(
    [float.fromhex(x) for x in ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2")]
    + [1.0, 1.0],
    np.float32,
)
"""Of the exponential between -ln 2 / 2 and ln 2 / 2, the highest power first."""


@entry
def softmax_rows(source: Floats, result: Floats) -> None:
    """Softmax of every row, as ONNX Runtime computes it in vectors of four.

    The exponential is a polynomial in fused multiply-adds; four sums run side by side, the first and third, the second
    and fourth are added, then both, then what no four numbers are left of; the result is multiplied by the reciprocal.

    Args:
        source: shape (rows, n), C-contiguous.
        result: likewise; NaN in rows whose largest number is infinite or undefined.
    """
    rows, count = source.shape
    whole = count - count % _LANES
    sums = np.zeros(_LANES, np.float32)
    for row in range(rows):
        largest = source[row, 0]
        for index in range(count):
            if source[row, index] > largest or source[row, index] != source[row, index]:
                largest = source[row, index]
        sums[:] = np.float32(0)
        for index in range(count):
            x = source[row, index] - largest
            if x != x:
                result[row, index] = x
            else:
                x = max(x, _LOWEST)
                shifted = np.float32(np.float64(x) * _LOG2_E + np.float64(_ROUNDING))
                power = shifted - _ROUNDING
                rest = np.float32(np.float64(power) * _LN2_HIGH + np.float64(x))
                rest = np.float32(np.float64(power) * _LN2_LOW + np.float64(rest))
                value = _POLYNOMIAL[0]
                for factor in _POLYNOMIAL[1:]:
                    value = np.float32(np.float64(value) * np.float64(rest) + np.float64(factor))
                result[row, index] = np.float32(math.ldexp(np.float64(value), int(power)))
            if index < whole:
                sums[index % _LANES] += result[row, index]
        total = (sums[0] + sums[2]) + (sums[1] + sums[3])
        for index in range(whole, count):
            total += result[row, index]
        scale = np.float32(1) / total
        for index in range(count):
            result[row, index] *= scale


@entry
def mean_of_middle(source: Floats, result: Floats) -> None:
    """Mean over the middle axis: the first number, then the sums of four, each two pairs, then the rest one by one.

    Args:
        source: shape (outer, n, inner), C-contiguous.
        result: shape (outer, inner), C-contiguous.
    """
    outer, count, inner = source.shape
    fours = (count - 1) // _LANES * _LANES
    for block in range(outer):
        for place in range(inner):
            total = source[block, 0, place]
            index = 1
            while index < fours:
                first = source[block, index, place] + source[block, index + 1, place]
                second = source[block, index + 2, place] + source[block, index + 3, place]
                total += first + second
                index += _LANES
            while index < count:
                total += source[block, index, place]
                index += 1
            result[block, place] = total / np.float32(count)
