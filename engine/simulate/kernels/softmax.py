"""Kernel of Softmax in float32; :mod:`engine.floats.softmax.definition` defines what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.floats.softmax.exponential import SUMS
from engine.floats.softmax.loops import exponentials, sum_of, with_rest
from engine.jit import compiled, intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.memory import float32_at

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(F32, LANES)
ROWS = 4
"""Rows whose sums run side by side, so that none waits for its last addition."""


@intrinsic
def largest_lane(typing_context: Any, x: Any, count: Any) -> Any:
    """The largest of ``count`` float32 at ``x``, at least :data:`LANES`; NaN counts as nothing.

    The last vector may overlap the one before, which changes nothing.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, count = args
        lanes = ir.Constant(I64, LANES)
        slot = cgutils.alloca_once(builder, FLOATS)
        builder.store(ir.Constant(FLOATS, [float("-inf")] * LANES), slot)
        with cgutils.for_range(builder, builder.sdiv(count, lanes)) as loop:
            start = builder.mul(loop.index, lanes)
            builder.store(_larger(builder, _floats(builder, x, start), builder.load(slot)), slot)
        most = _larger(builder, _floats(builder, x, builder.sub(count, lanes)), builder.load(slot))
        half = LANES // 2
        while half:
            order = ir.Constant(ir.VectorType(I32, LANES), [(k + half) % LANES for k in range(LANES)])
            most = _larger(builder, builder.shuffle_vector(most, most, order), most)
            half //= 2
        return builder.extract_element(most, ir.Constant(I32, 0))

    return types.float32(types.intp, types.intp), codegen


@intrinsic
def multiply_run(typing_context: Any, y: Any, count: Any, factor: Any) -> Any:
    """``y *= factor`` for ``count`` float32, at least :data:`LANES`; the last vector may overlap, and is read first."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        y, count, factor = args
        lanes = ir.Constant(I64, LANES)
        first = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), factor, ir.Constant(I32, 0))
        factors = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))
        rest = builder.sub(count, lanes)
        last = builder.fmul(_floats(builder, y, rest), factors)
        with cgutils.for_range(builder, builder.sdiv(count, lanes)) as loop:
            start = builder.mul(loop.index, lanes)
            builder.store(builder.fmul(_floats(builder, y, start), factors), _place(builder, y, start, FLOATS), align=4)
        builder.store(last, _place(builder, y, rest, FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32), codegen


@intrinsic
def sums_side_by_side(typing_context: Any, y: Any, pitch: Any, steps: Any, target: Any) -> Any:
    """For :data:`ROWS` rows, ``pitch`` bytes apart: the sum of ``4 * steps`` float32 in the order of :func:`sum_of`."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        y, pitch, steps, target = args
        kind = ir.VectorType(F32, SUMS)
        rows = [builder.add(y, builder.mul(pitch, ir.Constant(I64, r))) for r in range(ROWS)]
        slots = [cgutils.alloca_once(builder, kind) for _ in rows]
        for slot in slots:
            builder.store(ir.Constant(kind, None), slot)
        with cgutils.for_range(builder, steps) as loop:
            start = builder.mul(loop.index, ir.Constant(I64, SUMS))
            for row, slot in zip(rows, slots, strict=True):
                more = builder.load(_place(builder, row, start, kind), align=4)
                builder.store(builder.fadd(builder.load(slot), more), slot)
        for r, slot in enumerate(slots):
            a, b, c, d = (builder.extract_element(builder.load(slot), ir.Constant(I32, k)) for k in range(SUMS))
            total = builder.fadd(builder.fadd(a, c), builder.fadd(b, d))
            builder.store(total, _place(builder, target, ir.Constant(I64, r), F32), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), codegen


def _place(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, kind: ir.Type) -> ir.Value:
    """Pointer to ``kind`` at float32 ``index`` behind the address ``base``."""
    return builder.inttoptr(builder.add(base, builder.mul(index, ir.Constant(I64, 4))), kind.as_pointer())


def _floats(builder: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
    return builder.load(_place(builder, base, index, FLOATS), align=4)


def _larger(builder: ir.IRBuilder, x: ir.Value, most: ir.Value) -> ir.Value:
    """``x`` where it is larger than ``most``, which is no NaN."""
    return builder.select(builder.fcmp_ordered(">", x, most), x, most)


@compiled
def softmax(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Softmax of rows of ``count`` float32: units are rows. ``scratch`` holds a sum for each of :data:`ROWS` rows."""
    size, sums = f.count, float32_at(scratch, ROWS)
    for first in range(begin, end, ROWS):
        rows = min(ROWS, end - first)
        y = arena + f.y + first * size * 4
        for row in range(rows):
            x = arena + f.x + (first + row) * size * 4
            exponentials(float32_at(x, size), largest_of(x, size), float32_at(y + row * size * 4, size))
        if rows == ROWS:
            sums_side_by_side(y, size * 4, size // SUMS, scratch)
            for row in range(rows):
                sums[row] = with_rest(sums[row], float32_at(y + row * size * 4, size))
        else:
            for row in range(rows):
                sums[row] = sum_of(float32_at(y + row * size * 4, size))
        for row in range(rows):
            multiply(y + row * size * 4, size, np.float32(1) / sums[row])


@compiled
def multiply(y: int, count: int, factor: Any) -> None:
    """``y *= factor``."""
    if count >= LANES:
        multiply_run(y, count, factor)
    else:
        values = float32_at(y, count)
        for k in range(count):
            values[k] = values[k] * factor


@compiled
def largest_of(x: int, count: int) -> Any:
    """The largest of ``count`` float32 at ``x``; NaN counts as nothing."""
    if count >= LANES:
        return largest_lane(x, count)
    values, largest = float32_at(x, count), np.float32(-np.inf)
    for k in range(count):
        largest = values[k] if values[k] > largest else largest
    return largest
