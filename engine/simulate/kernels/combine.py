"""Weighted sums and products of two int8 operands in vector registers, from operands to requantised results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.elementwise_rows import (
    ACCU_SHIFT,
    E_SCALE,
    E_SHIFT,
    HALF,
    HIGH_16,
    LOW_16,
    OFFSET,
    OUT_SHIFT,
    SCALE,
    X_SHIFT,
)
from engine.simulate.kernels.vector import I8, I32, I64, VECTOR, clip, load, load_wide, splat, store


def make_combine(y_type: ir.IntType, *, multiply: bool, repeats: bool) -> Callable[..., None]:
    """Intrinsic ``(x, x_pitch, e, e_pitch, y, rows, length, params, low, high)``: rows of an elementwise operator.

    ``x`` and ``e`` are int8 rows, ``pitch`` bytes apart, of ``length`` elements, at least :data:`LANES`; with
    ``repeats`` a row of ``e`` is one element. ``y`` is dense, of ``y_type``. ``params``: one int32 per row of
    :mod:`engine.simulate.kernels.elementwise_rows`, with which nothing leaves 32 bits. The last vector of a row may
    overlap the one before, which changes nothing.
    """
    y_bytes = y_type.width // 8
    narrow = ir.VectorType(y_type, LANES)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, x_pitch, e, e_pitch, y, rows, length, params, low, high = args
        used = [OFFSET] if multiply else [X_SHIFT, E_SCALE, E_SHIFT]
        p = {
            row: splat(builder, load(builder, builder.add(params, ir.Constant(I64, 4 * row)), I32))
            for row in (*used, ACCU_SHIFT, SCALE, HALF, OUT_SHIFT)
        }
        least, most = (splat(builder, builder.trunc(bound, I32)) for bound in (low, high))
        bottom, top = (ir.Constant(VECTOR, [bound] * LANES) for bound in (LOW_16, HIGH_16))
        lanes, item = ir.Constant(I64, LANES), ir.Constant(I64, y_bytes)
        rest = builder.sub(length, lanes)
        vectors = builder.sdiv(builder.add(length, ir.Constant(I64, LANES - 1)), lanes)
        with cgutils.for_range(builder, rows) as outer:
            x_row = builder.add(x, builder.mul(outer.index, x_pitch))
            e_row = builder.add(e, builder.mul(outer.index, e_pitch))
            y_row = builder.add(y, builder.mul(builder.mul(outer.index, length), item))
            same = splat(builder, builder.sext(load(builder, e_row, I8), I32)) if repeats else None
            with cgutils.for_range(builder, vectors) as inner:
                start = builder.mul(inner.index, lanes)
                start = builder.select(builder.icmp_signed("<", start, rest), start, rest)
                first = load_wide(builder, builder.add(x_row, start), I8)
                second = same if same is not None else load_wide(builder, builder.add(e_row, start), I8)
                if multiply:
                    value = builder.add(builder.mul(first, second), p[OFFSET])
                else:
                    weighted = builder.shl(builder.mul(second, p[E_SCALE]), p[E_SHIFT])
                    value = builder.add(builder.shl(first, p[X_SHIFT]), weighted)
                narrowed = clip(builder, builder.ashr(value, p[ACCU_SHIFT]), bottom, top)
                scaled = builder.add(builder.mul(narrowed, p[SCALE]), p[HALF])
                result = clip(builder, builder.ashr(scaled, p[OUT_SHIFT]), least, most)
                store(builder, builder.trunc(result, narrow), builder.add(y_row, builder.mul(start, item)))
        return context.get_dummy_value()

    @intrinsic
    def combine(
        typing_context: Any,
        x: Any,
        x_pitch: Any,
        e: Any,
        e_pitch: Any,
        y: Any,
        rows: Any,
        length: Any,
        params: Any,
        low: Any,
        high: Any,
    ) -> Any:
        return types.void(*[types.intp] * 10), codegen

    return combine
