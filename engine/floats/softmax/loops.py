"""Compiled Softmax of float32 rows: what calibration and the simulator's kernel share, and calibration's loop.

Both compute what :mod:`engine.floats.softmax.definition` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numpy.typing import NDArray

from engine.floats.logarithm import eigens_logarithm
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
    ROUNDING,
    SUMS,
)
from engine.jit import compiled, entry, intrinsic

Floats = NDArray[np.float32]
Maps = NDArray[np.float32]
Bits = NDArray[np.int32]

I32, F32 = ir.IntType(32), ir.FloatType()
C0, C1, C2, C3, C4, C5 = POLYNOMIAL
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


@intrinsic
def power_of_two(typing_context: Any, shifted: Any) -> Any:
    """2^n, where the low bits of float32 ``shifted`` are n; 0 for the smallest n.

    What the rounding constant leaves of its own in the lowest bits goes as these become the exponent.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        exponent = builder.shl(builder.bitcast(args[0], I32), ir.Constant(I32, MANTISSA_BITS))
        return builder.bitcast(builder.add(exponent, ir.Constant(I32, ONE_BITS)), F32)

    return types.float32(types.float32), codegen


@compiled
def exponentials(x: Any, largest: Any, y: Any) -> None:
    """``y = e^(x - largest)`` for numbers up to ``largest``; 0 where that is below about e^-87.7."""
    for k in range(len(y)):
        z = x[k] - largest
        z = LOWEST if z < LOWEST else z
        scaled = z * LOG2_E + HALF
        power = (scaled + ROUNDING) - ROUNDING
        power = power - ONE if power > scaled else power
        rest = z - power * LN2_HIGH
        rest = rest - power * LN2_LOW
        value = (((C0 * rest + C1) * rest + C2) * rest + C3) * rest + C4
        value = (value * rest + C5) * (rest * rest) + rest
        y[k] = (value + ONE) * power_of_two(power + ROUNDING)


@compiled
def sum_of(y: Any) -> Any:
    """Four sums side by side, the first and third, the second and fourth added, then both, then that of the rest."""
    a = b = c = d = np.float32(0)
    for start in range(0, len(y) - len(y) % SUMS, SUMS):
        a += y[start]
        b += y[start + 1]
        c += y[start + 2]
        d += y[start + 3]
    return with_rest((a + c) + (b + d), y)


@compiled
def with_rest(total: Any, y: Any) -> Any:
    """``total`` and the sum of what no four numbers are left of."""
    left = np.float32(0)
    for k in range(len(y) - len(y) % SUMS, len(y)):
        left += y[k]
    return total + left


@compiled
def _largest(bits: Bits) -> Any:
    """The largest of float32 numbers; NaN where any is.

    As integers, bit patterns order as the numbers do once those of negative numbers are turned round.

    Args:
        bits: their bit patterns, shape (n,), C-contiguous.
    """
    place = bits[0] ^ ((bits[0] >> 31) & _MAGNITUDE)
    magnitude = np.int32(0)
    for index in range(bits.size):
        place = max(place, bits[index] ^ ((bits[index] >> 31) & _MAGNITUDE))
        magnitude = max(magnitude, bits[index] & _MAGNITUDE)
    if magnitude > _INFINITY:
        return np.float32(np.nan)
    return np.int32(place ^ ((place >> 31) & _MAGNITUDE)).view(np.float32)


@entry
def softmax_rows(source: Floats, result: Floats) -> None:
    """Softmax of every row.

    The loops are such that the compiler makes vector instructions of them.

    Args:
        source: shape (rows, n), C-contiguous.
        result: likewise; NaN in rows whose largest number is infinite or undefined.
    """
    for row in range(len(source)):
        given, found = source[row], result[row]
        largest = _largest(given.view(np.int32))
        if not math.isfinite(largest):
            found[:] = np.float32(np.nan)
            continue
        exponentials(given, largest, found)
        scale = np.float32(1) / sum_of(found)
        for index in range(len(found)):
            found[index] *= scale


@entry
def log_softmax_rows(source: Floats, result: Floats) -> None:
    """Logarithm of the softmax of every row: ``(x - max) - ln(sum)``.

    Exponentials and logarithms are those of Eigen's vectors, and the C library's for the last numbers of the tensor and
    for its last rows, of which no four are left. Asked of the original's runtime: 27 nodes; of
    rows up to 1,000 numbers all are equal but one, which has another sum there.

    Args:
        source: shape (rows, n), C-contiguous.
        result: likewise; NaN in rows whose largest number is infinite or undefined.
    """
    together = len(source) - len(source) % SUMS
    for row in range(len(source)):
        given, found = source[row], result[row]
        largest = _largest(given.view(np.int32))
        if not math.isfinite(largest):
            found[:] = np.float32(np.nan)
            continue
        exponentials(given, largest, found)
        for index in range(max(0, source.size - source.size % SUMS - row * len(found)), len(found)):
            found[index] = np.float32(math.exp(given[index] - largest))
        total = sum_of(found)
        shift = eigens_logarithm(total) if row < together else np.float32(math.log(total))
        for index in range(len(found)):
            found[index] = (given[index] - largest) - shift


@entry
def softmax_along(source: Maps, result: Maps) -> None:
    """Softmax along the middle dimension, as the original's own operator has it: ``HzSoftmax``.

    Exponentials are the C library's, added up in float32 one after the other, by which each is divided. Asked of the
    original's runtime: 1,023 numbers of 12 nodes, of 2 to 100 numbers along the axis, all equal.

    Args:
        source: shape (outer, n, inner), C-contiguous.
        result: likewise; NaN where the largest number is infinite or undefined.
    """
    for outer in range(source.shape[0]):
        for inner in range(source.shape[2]):
            largest = source[outer, 0, inner]
            for index in range(1, source.shape[1]):
                # Not undefined numbers: what is subtracted from them stays undefined, and so does the sum.
                largest = max(largest, source[outer, index, inner])
            total = np.float32(0)
            for index in range(source.shape[1]):
                value = np.float32(math.exp(source[outer, index, inner] - largest))
                result[outer, index, inner] = value
                total += value
            for index in range(source.shape[1]):
                result[outer, index, inner] /= total
