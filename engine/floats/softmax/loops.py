"""Compiled Softmax of float32 rows: what calibration and the simulator's kernel share, and calibration's loop.

Both take the same exponential and the same order of sums. They differ where a power is less than the normal numbers of
float32 (differences of 87.7 and more): the simulator has 0 there (:mod:`engine.floats.softmax.definition`),
calibration the number itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numpy.typing import NDArray

from engine.floats.multiply_add import FUSES, multiply_add
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
from engine.jit import compiled, entry, intrinsic

Floats = NDArray[np.float32]
Bits = NDArray[np.int32]

I32, F32 = ir.IntType(32), ir.FloatType()
C0, C1, C2, C3, C4, C5, C6 = POLYNOMIAL
_LIFT, _BACK = 64 << MANTISSA_BITS, np.float32(2.0**-64)
"""Powers of two are that many times larger at first (as bits of the exponent), so that they are normal numbers."""
_MAGNITUDE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)


def make_fused(native: bool) -> Callable[[Any, Any, Any], Any]:
    """Intrinsic ``(a, b, c)``: ``a * b + c`` of float32, rounded once."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        return multiply_add(builder, args, native)

    @intrinsic
    def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        return types.float32(types.float32, types.float32, types.float32), codegen

    return fused


fused = make_fused(FUSES)


def _make_power_of_two(bits: int) -> Callable[[Any], Any]:
    """Intrinsic ``(shifted)``: 2^n as its bits plus ``bits``, where the low bits of float32 ``shifted`` are n.

    What the rounding constant leaves of its own in the lowest bits goes as these become the exponent.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        exponent = builder.shl(builder.bitcast(args[0], I32), ir.Constant(I32, MANTISSA_BITS))
        return builder.bitcast(builder.add(exponent, ir.Constant(I32, bits)), F32)

    @intrinsic
    def power_of_two(typing_context: Any, shifted: Any) -> Any:
        return types.float32(types.float32), codegen

    return power_of_two


power_of_two = _make_power_of_two(ONE_BITS)
"""0 for the smallest n."""
_lifted_power_of_two = _make_power_of_two(ONE_BITS + _LIFT)


@compiled
def shifted_and_rest(x: Any) -> Any:
    """Of e^x for x up to 0: the power of two as the low bits of a float32, and the factor that is left."""
    x = LOWEST if x < LOWEST else x
    shifted = fused(x, LOG2_E, ROUNDING)
    power = shifted - ROUNDING
    rest = fused(power, LN2_LOW, fused(power, LN2_HIGH, x))
    high = fused(fused(fused(C0, rest, C1), rest, C2), rest, C3)
    return shifted, fused(fused(fused(high, rest, C4), rest, C5), rest, C6)


@compiled
def exponentials(x: Any, largest: Any, y: Any) -> None:
    """``y = e^(x - largest)``; 0 where that is below the normal numbers."""
    for k in range(len(y)):
        shifted, value = shifted_and_rest(x[k] - largest)
        y[k] = value * power_of_two(shifted)


@compiled
def sum_of(y: Any) -> Any:
    """Four sums side by side, the first and third, the second and fourth added, then both, then the rest."""
    a = b = c = d = np.float32(0)
    for start in range(0, len(y) - len(y) % SUMS, SUMS):
        a += y[start]
        b += y[start + 1]
        c += y[start + 2]
        d += y[start + 3]
    return with_rest((a + c) + (b + d), y)


@compiled
def with_rest(total: Any, y: Any) -> Any:
    """``total`` and what no four numbers are left of."""
    for k in range(len(y) - len(y) % SUMS, len(y)):
        total += y[k]
    return total


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
    """Softmax of every row, as ONNX Runtime computes it in vectors of four.

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
        for index in range(len(found)):
            shifted, value = shifted_and_rest(given[index] - largest)
            found[index] = value * _lifted_power_of_two(shifted) * _BACK
        scale = np.float32(1) / sum_of(found)
        for index in range(len(found)):
            found[index] *= scale
