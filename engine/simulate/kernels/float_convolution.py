"""Kernel of float32 convolutions over one axis; :mod:`engine.simulate.float_convolution` defines what it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.simulate.kernels.jit import compiled, intrinsic
from engine.simulate.kernels.memory import copy_bytes, float32_at
from engine.simulate.kernels.multiply_add import multiply_add
from engine.simulate.kernels.registers import LANES
from engine.simulate.kernels.tiles import FLOAT_ROWS as ROWS
from engine.simulate.kernels.tiles import FLOAT_VECTORS as VECTORS
from engine.simulate.kernels.tiles import FLOAT_WIDTH as WIDTH

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(F32, LANES)


@intrinsic
def float_tile(typing_context: Any, x: Any, offsets: Any, taps: Any, w: Any, out: Any) -> Any:
    """``out[r, p] = sum_t x[offsets[t] + p] * w[t, r]``: one multiply-add after the other, from 0 on.

    ``x`` float32; ``offsets`` int64, in bytes; ``w`` float32 (taps, ``ROWS``); ``out`` float32 (``ROWS``,
    ``WIDTH``).
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, offsets, taps, w, out = args
        sums = [cgutils.alloca_once(builder, FLOATS) for _ in range(ROWS * VECTORS)]
        for total in sums:
            builder.store(ir.Constant(FLOATS, None), total)
        with cgutils.for_range(builder, taps) as loop:
            offset = builder.load(_pointer(builder, offsets, builder.mul(loop.index, _int(8)), I64), align=8)
            start = builder.add(x, offset)
            values = [
                builder.load(_pointer(builder, start, _int(4 * LANES * v), FLOATS), align=4) for v in range(VECTORS)
            ]
            first = builder.mul(loop.index, _int(4 * ROWS))
            for row in range(ROWS):
                weight = builder.load(_pointer(builder, w, builder.add(first, _int(4 * row)), F32), align=4)
                one = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), weight, ir.Constant(I32, 0))
                weights = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))
                for v, value in enumerate(values):
                    total = sums[row * VECTORS + v]
                    builder.store(multiply_add(builder, [value, weights, builder.load(total)]), total)
        for index, total in enumerate(sums):
            builder.store(builder.load(total), _pointer(builder, out, _int(4 * LANES * index), FLOATS), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), codegen


def _pointer(builder: ir.IRBuilder, base: ir.Value, offset: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(builder.add(base, offset), kind.as_pointer())


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


@compiled
def float_convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Convolution over one axis, stride 1, of an already padded input: units are tiles of output channels.

    x (channels, in_w), y (out_c, out_w), float32; ``panels`` tiles in a group, whose input begins ``group_weights``
    bytes behind that of the one before; ``weights`` (tiles, taps, ROWS); ``params``: a bias per output channel, or 0.
    """
    group_channels = f.out_c // f.groups
    for unit in range(begin, end):
        group, tile = unit // f.panels, unit % f.panels
        rows = min(ROWS, group_channels - tile * ROWS)
        channel = group * group_channels + tile * ROWS
        x, w = arena + f.x + group * f.group_weights, f.weights + unit * f.taps * ROWS * 4
        for start in range(0, f.out_w, WIDTH):
            float_tile(x + start * 4, f.tap_offsets, f.taps, w, scratch)
            size = min(WIDTH, f.out_w - start)
            for row in range(rows):
                if f.params:
                    bias = float32_at(f.params + (channel + row) * 4, 1)[0]
                    add_to(float32_at(scratch + row * WIDTH * 4, size), bias)
                y = arena + f.y + ((channel + row) * f.out_w + start) * 4
                copy_bytes(scratch + row * WIDTH * 4, y, size * 4)


@compiled
def add_to(values: Any, bias: Any) -> None:
    """``values += bias``."""
    for k in range(len(values)):
        values[k] += bias
