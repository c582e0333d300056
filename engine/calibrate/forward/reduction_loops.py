"""Float32 reductions in a given order of sums, compiled, for :mod:`engine.calibrate.forward.own_arithmetic`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]
Bits = NDArray[np.int32]

_LANES = 4
"""Numbers that are summed side by side, and taken at a time."""
_LOWEST = np.float32(-88.3762626647949)
"""Exponents below it count as it: the exponential stays a normal number."""
_LOG2_E = np.float32(1.44269504088896341)
_ROUNDING = np.float32(12582912.0)
"""1.5 * 2^23: adding and subtracting it rounds to a whole number."""
_LN2_HIGH, _LN2_LOW = np.float32(-6.93145752e-1), np.float32(-1.42860677e-6)
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (
    np.float32(float.fromhex(x))
    for x in ("0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0")
)
"""The polynomial of the exponential between -ln 2 / 2 and ln 2 / 2, the highest power first."""
_BIAS, _MANTISSA = 127, 23
"""Bias of the exponent of a float32, and number of bits below the exponent."""
_LIFT, _BACK = 64, np.float32(2.0**-64)
"""Powers of two are that many times larger at first, so that they are normal numbers."""
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _multiply_add(typing_context: Any, factor: Any, other: Any, summand: Any) -> Any:
    """``factor * other + summand`` of float32, rounded once where the CPU can.

    Elsewhere the sum is rounded to float64 first. For none of the 1.1 billion negative numbers that
    :func:`softmax_rows` takes the exponential of do the two differ there.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        triple, _, features = context.codegen().magic_tuple()
        if "+fma" in features.split(",") or triple.startswith("aarch64"):
            return builder.fma(*args)
        first, second, third = (builder.fpext(each, ir.DoubleType()) for each in args)
        return builder.fptrunc(builder.fadd(builder.fmul(first, second), third), ir.FloatType())

    return types.float32(types.float32, types.float32, types.float32), codegen


@entry
def _largest(bits: Bits) -> np.float32:
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
    """Softmax of every row, as ONNX Runtime computes it in vectors of four.

    The exponential is a polynomial in fused multiply-adds; four sums run side by side, the first and third, the second
    and fourth are added, then both, then what no four numbers are left of; the result is multiplied by the reciprocal.
    The loops are such that the compiler makes vector instructions of them.

    Args:
        source: shape (rows, n), C-contiguous.
        result: likewise; NaN in rows whose largest number is infinite or undefined.
    """
    rows, count = source.shape
    whole = count - count % _LANES
    for row in range(rows):
        given, found = source[row], result[row]
        largest = _largest(given.view(np.int32))
        if not math.isfinite(largest):
            found[:] = np.float32(np.nan)
            continue
        for index in range(count):
            x = given[index] - largest
            x = x if x > _LOWEST else _LOWEST
            shifted = _multiply_add(x, _LOG2_E, _ROUNDING)
            power = shifted - _ROUNDING
            rest = _multiply_add(power, _LN2_LOW, _multiply_add(power, _LN2_HIGH, x))
            value = _multiply_add(_C0, rest, _C1)
            value = _multiply_add(value, rest, _C2)
            value = _multiply_add(value, rest, _C3)
            value = _multiply_add(value, rest, _C4)
            value = _multiply_add(value, rest, _C5)
            value = _multiply_add(value, rest, _C6)
            # What the rounding constant leaves of its own in the lowest bits goes as these become the exponent.
            lifted = np.int32((np.float32(shifted).view(np.int32) + (_LIFT + _BIAS)) << _MANTISSA)
            found[index] = value * lifted.view(np.float32) * _BACK
        first, second, third, fourth = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for index in range(0, whole, _LANES):
            first += found[index]
            second += found[index + 1]
            third += found[index + 2]
            fourth += found[index + 3]
        total = (first + third) + (second + fourth)
        for index in range(whole, count):
            total += found[index]
        scale = np.float32(1) / total
        for index in range(count):
            found[index] *= scale


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
