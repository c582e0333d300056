"""Kernel of Softmax in float32; :mod:`engine.simulate.softmax` defines what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types

from engine.simulate.kernels.exponential import (
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
from engine.simulate.kernels.jit import compiled, intrinsic
from engine.simulate.kernels.memory import float32_at
from engine.simulate.kernels.registers import LANES, LEVEL

I32, I64, F32, F64 = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType()
FLOATS = ir.VectorType(F32, LANES)
C0, C1, C2, C3, C4, C5, C6 = POLYNOMIAL
FUSES = LEVEL is None or "fma" in LEVEL.features
"""Whether the CPU rounds ``a * b + c`` once by itself."""


def make_fused(native: bool) -> Callable[[Any, Any, Any], Any]:
    """Intrinsic ``(a, b, c)``: ``a * b + c`` of float32, rounded once.

    Without the CPU's own instruction: in float64, with an odd last bit where the sum is not exact.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if native:
            return builder.fma(*args)
        a, b, c = (builder.fpext(value, F64) for value in args)
        product = builder.fmul(a, b)
        total = builder.fadd(product, c)
        part = builder.fsub(total, product)
        error = builder.fadd(builder.fsub(product, builder.fsub(total, part)), builder.fsub(c, part))
        zero, bits = ir.Constant(F64, 0.0), builder.bitcast(total, I64)
        even = builder.icmp_signed("==", builder.and_(bits, ir.Constant(I64, 1)), ir.Constant(I64, 0))
        same = builder.icmp_signed("==", builder.fcmp_ordered(">", error, zero), builder.fcmp_ordered(">", total, zero))
        step = builder.select(same, ir.Constant(I64, 1), ir.Constant(I64, -1))
        inexact = builder.and_(builder.fcmp_ordered("!=", error, zero), even)
        odd = builder.add(bits, builder.select(inexact, step, ir.Constant(I64, 0)))
        return builder.fptrunc(builder.bitcast(odd, F64), F32)

    @intrinsic
    def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        return types.float32(types.float32, types.float32, types.float32), codegen

    return fused


fused = make_fused(FUSES)


@intrinsic
def power_of_two(typing_context: Any, shifted: Any) -> Any:
    """2^n, where the low bits of ``shifted``, float32, are the integer n; 0 for the smallest n."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        exponent = builder.shl(builder.bitcast(args[0], I32), ir.Constant(I32, MANTISSA_BITS))
        return builder.bitcast(builder.add(exponent, ir.Constant(I32, ONE_BITS)), F32)

    return types.float32(types.float32), codegen


@intrinsic
def keep_largest(typing_context: Any, address: Any, lanes: Any) -> Any:
    """``lanes[k] = max(lanes[k], x[k])`` of a vector of float32 at each address; NaN in x counts as nothing."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        source, target = (builder.inttoptr(address, FLOATS.as_pointer()) for address in args)
        x, most = builder.load(source, align=4), builder.load(target, align=4)
        builder.store(builder.select(builder.fcmp_ordered(">", x, most), x, most), target, align=4)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@compiled
def softmax(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Softmax of rows of ``count`` float32: units are rows."""
    for row in range(begin, end):
        x = arena + f.x + row * f.count * 4
        largest = largest_of(x, f.count, scratch)
        y = float32_at(arena + f.y + row * f.count * 4, f.count)
        exponentials(float32_at(x, f.count), largest, y)
        scale = np.float32(1) / sum_of(y)
        for k in range(len(y)):
            y[k] = y[k] * scale


@compiled
def largest_of(x: int, count: int, scratch: int) -> Any:
    """The largest of ``count`` float32 at ``x``; NaN counts as nothing. ``scratch`` holds a vector."""
    lanes, values = float32_at(scratch, LANES), float32_at(x, count)
    lanes[:] = np.float32(-np.inf)
    whole = count - count % LANES
    for start in range(0, whole, LANES):
        keep_largest(x + start * 4, scratch)
    largest = lanes[0]
    if whole:
        for k in range(1, LANES):
            largest = lanes[k] if lanes[k] > largest else largest
    for k in range(whole, count):
        largest = values[k] if values[k] > largest else largest
    return largest


@compiled
def exponentials(x: Any, largest: Any, y: Any) -> None:
    """``y = e^(x - largest)``."""
    for k in range(len(y)):
        value = x[k] - largest
        value = LOWEST if value < LOWEST else value
        shifted = fused(value, LOG2_E, ROUNDING)
        power = shifted - ROUNDING
        rest = fused(power, LN2_LOW, fused(power, LN2_HIGH, value))
        high = fused(fused(fused(C0, rest, C1), rest, C2), rest, C3)
        y[k] = fused(fused(fused(high, rest, C4), rest, C5), rest, C6) * power_of_two(shifted)


@compiled
def sum_of(y: Any) -> Any:
    """Four sums side by side, the first and third, the second and fourth added, then both, then the rest."""
    whole = len(y) - len(y) % SUMS
    a = b = c = d = np.float32(0)
    for start in range(0, whole, SUMS):
        a += y[start]
        b += y[start + 1]
        c += y[start + 2]
        d += y[start + 3]
    total = (a + c) + (b + d)
    for k in range(whole, len(y)):
        total += y[k]
    return total
