"""Kernel of float32 convolutions over one axis; :mod:`engine.floats.convolution` defines what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.floats.multiply_add import multiply_add
from engine.jit import compiled, intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.memory import copy_bytes
from engine.simulate.kernels.movement import fill
from engine.simulate.kernels.tiles import FEW_FLOAT_ROWS as FEW
from engine.simulate.kernels.tiles import FLOAT_ROWS as ROWS
from engine.simulate.kernels.tiles import FLOAT_VECTORS as VECTORS
from engine.simulate.kernels.tiles import FLOAT_WIDTH as WIDTH

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(F32, LANES)


def make_float_tile(rows: int) -> Callable[..., None]:
    """Intrinsic ``(x, offsets, taps, block, w, w_tap, w_row, bias, low, out, pitch)``: a tile of ``rows`` rows.

    ``out[r, p] = sum_t x[offsets[t] + p] * w[t, r] + bias[r]``: one multiply-add after the other, after ``block`` of
    them from 0 anew; then these sums, then the bias; then ``low``, where the result is less. ``x`` float32; ``offsets``
    int64, in bytes; ``w`` float32, ``w_tap`` and ``w_row`` bytes from one tap and one row to the next; ``bias`` float32
    (``rows``); ``low`` the bits of a float32; ``out`` float32, rows of ``WIDTH``, ``pitch`` bytes apart.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, offsets, taps, block, w, w_tap, w_row, biases, low, out, pitch = args
        sums, totals = ([cgutils.alloca_once(builder, FLOATS) for _ in range(rows * VECTORS)] for _ in range(2))
        for total in totals:  # to which -0 adds nothing, as 0 would to -0
            builder.store(ir.Constant(FLOATS, [-0.0] * LANES), total)
        blocks = builder.udiv(builder.add(taps, builder.sub(block, _int(1))), block)
        with cgutils.for_range(builder, blocks) as outer:
            done = builder.mul(outer.index, block)
            left = builder.sub(taps, done)
            count = builder.select(builder.icmp_signed("<", left, block), left, block)
            for part in sums:
                builder.store(ir.Constant(FLOATS, None), part)
            with cgutils.for_range(builder, count) as loop:
                tap = builder.add(done, loop.index)
                offset = builder.load(_pointer(builder, offsets, builder.mul(tap, _int(8)), I64), align=8)
                start = builder.add(x, offset)
                values = [
                    builder.load(_pointer(builder, start, _int(4 * LANES * v), FLOATS), align=4) for v in range(VECTORS)
                ]
                first = builder.mul(tap, w_tap)
                for row in range(rows):
                    weights = _in_all_lanes(builder, w, builder.add(first, builder.mul(w_row, _int(row))))
                    for v, value in enumerate(values):
                        part = sums[row * VECTORS + v]
                        builder.store(multiply_add(builder, [value, weights, builder.load(part)]), part)
            for total, part in zip(totals, sums, strict=True):
                builder.store(builder.fadd(builder.load(total), builder.load(part)), total)
        lowest = _of_all_lanes(builder, builder.bitcast(builder.trunc(low, I32), F32))
        for row in range(rows):
            bias = _in_all_lanes(builder, biases, _int(4 * row))
            target = builder.add(out, builder.mul(pitch, _int(row)))
            for v in range(VECTORS):
                result = builder.fadd(builder.load(totals[row * VECTORS + v]), bias)
                result = builder.select(builder.fcmp_ordered("<", result, lowest), lowest, result)
                builder.store(result, _pointer(builder, target, _int(4 * LANES * v), FLOATS), align=4)
        return context.get_dummy_value()

    @intrinsic
    def float_tile(
        typing_context: Any,
        x: Any,
        offsets: Any,
        taps: Any,
        block: Any,
        w: Any,
        w_tap: Any,
        w_row: Any,
        bias: Any,
        low: Any,
        out: Any,
        pitch: Any,
    ) -> Any:
        return types.void(*[types.intp] * 11), codegen

    return float_tile


def _in_all_lanes(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value) -> ir.Value:
    """A vector of the float32 that lies there."""
    return _of_all_lanes(builder, builder.load(_pointer(builder, base, offset, F32), align=4))


def _of_all_lanes(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """A vector of ``number``."""
    one = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), number, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _pointer(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


float_tile, small_float_tile = make_float_tile(ROWS), make_float_tile(FEW)
TILE_BYTES = ROWS * WIDTH * 4
"""Working memory of a tile, behind which a padded input lies."""


@compiled
def float_convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Convolution over one axis, stride 1: units are tiles of output channels.

    x (in_c, in_w), y (out_c, out_w), float32. Where ``wide`` is not 0, rows of x become rows of ``wide`` numbers first,
    ``left`` zeros in front and others behind. ``panels`` tiles of ``tile_rows`` channels in a group, whose input
    begins ``group_weights`` bytes behind that of the one before; ``weights`` (tiles, taps, tile_rows), ``count`` taps
    of which are summed at once; ``params`` a bias of every row; ``low``, the bits of a float32, takes the place of
    results that are less. The last tile of a group, and that of a row, overlaps the one before, which changes nothing.
    """
    group_channels = f.out_c // f.groups
    rows, pitch = min(f.tile_rows, group_channels), f.out_w * 4
    direct = f.out_w >= WIDTH and rows == f.tile_rows
    size = min(WIDTH, f.out_w)
    first = arena + f.x if f.wide == 0 else padded(f, arena, scratch + TILE_BYTES)
    for unit in range(begin, end):
        group, tile = unit // f.panels, unit % f.panels
        channel = group * group_channels + min(tile * f.tile_rows, group_channels - rows)
        x, y = first + group * f.group_weights, arena + f.y + channel * pitch
        for step in range(0, f.out_w, WIDTH):
            start = min(step, f.out_w - size) * 4
            if direct:
                one_tile(f, x + start, unit, y + start, pitch)
            else:
                one_tile(f, x + start, unit, scratch, WIDTH * 4)
                for row in range(rows):
                    copy_bytes(scratch + row * WIDTH * 4, y + start + row * pitch, size * 4)


@compiled
def padded(f: Any, arena: int, target: int) -> int:
    """Put the input between its zeros to ``target``, which is returned."""
    size, wide = f.in_w * 4, f.wide * 4
    for channel in range(f.in_c):
        row = target + channel * wide
        fill(row, f.left, 4, 0)
        copy_bytes(arena + f.x + channel * size, row + f.left * 4, size)
        fill(row + f.left * 4 + size, f.wide - f.left - f.in_w, 4, 0)
    return target


@compiled
def one_tile(f: Any, x: int, unit: int, out: int, pitch: int) -> None:
    """The tile of that unit, of one or the other height."""
    w, bias = f.weights + unit * f.taps * f.tile_rows * 4, f.params + unit * f.tile_rows * 4
    if f.tile_rows == ROWS:
        float_tile(x, f.tap_offsets, f.taps, f.count, w, 4 * ROWS, 4, bias, f.low, out, pitch)
    else:
        small_float_tile(x, f.tap_offsets, f.taps, f.count, w, 4 * FEW, 4, bias, f.low, out, pitch)
