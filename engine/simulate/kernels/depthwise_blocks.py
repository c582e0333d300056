"""Depthwise windows of 3x3 and 5x5 on a register of channels at a time: bytes of up to four taps in a lane.

Registers that interleave bytes and 16 bits within 128 bits bring the lanes into another order
(:data:`~engine.simulate.kernels.tiles.ORDER`), which the weights and parameters of a block share; two saturating packs
of results bring them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils

from engine.jit import intrinsic
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.packing import BYTES, REGISTER, WORDS, requantized_bytes, splat_bytes
from engine.simulate.kernels.tiles import (
    BIAS,
    BLOCK,
    BLOCK_FLIP,
    BLOCK_PIXELS,
    BLOCK_VECTORS,
    CHAIN,
    INTERLEAVED,
    QUAD,
    RIGHT_SHIFT,
    WORD_SCALE,
    WORD_SHIFT,
    WORDWISE,
)
from engine.simulate.kernels.vector import VECTOR, dot_of_quads, load, store

I32, I64 = ir.IntType(32), ir.IntType(64)

Pair = tuple[ir.Value, ir.Value]
"""Two columns' bytes side by side: channels 0 to 7 of each 16, and 8 to 15."""


def make_block_tile(size: int, stride: int) -> Callable[..., None]:
    """Intrinsic ``(x, column, offsets, w, out)``: a tile of a ``size`` x ``size`` window of int8.

    ``out[p, v, c] = sum_t (x[p * stride, t, channel] + BLOCK_FLIP) * w[t, channel]`` for :data:`BLOCK_PIXELS` pixels;
    ``column`` is the distance of columns in bytes, ``offsets`` int64 those of the window's taps, ``w`` int8 (steps,
    vectors, lanes, 4): four neighbours of each row, then four rows of a fifth column, or with AVX2, whose ``x`` are not
    negative, the rows of each column, four at a time; ``out`` int32, dense, lanes in
    :data:`~engine.simulate.kernels.tiles.ORDER`.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if CHAIN > 1:
            return _columns_tile(context, builder, size, stride, args)
        if not REGISTERS.quads:
            return context.get_dummy_value()
        x, column, offsets, w, out = args
        sums = [[ir.Constant(VECTOR, None)] * BLOCK_VECTORS for _ in range(BLOCK_PIXELS)]
        rows = [builder.add(x, load(builder, builder.add(offsets, _int(8 * size * row)), I64)) for row in range(size)]
        step = 0

        def flipped(row: int, index: int) -> ir.Value:
            value = load(builder, builder.add(rows[row], builder.mul(column, _int(index))), BYTES)
            return builder.xor(value, ir.Constant(BYTES, [-BLOCK_FLIP] * BLOCK))

        def add(pixel: int, first: Pair, second: Pair) -> None:
            halves = [(one, other) for one, other in zip(first, second, strict=True)]
            lanes = [_interleaved(builder, *half, WORDS, upper) for half in halves for upper in (False, True)]
            for v, value in enumerate(lanes):
                weights = load(builder, builder.add(w, _int((step * BLOCK_VECTORS + v) * LANES * 4)), VECTOR)
                quads = builder.bitcast(value, VECTOR)
                sums[pixel][v] = dot_of_quads(builder, sums[pixel][v], quads, weights)

        for row in range(size):
            seen: dict[int, Pair] = {}
            columns = {k: flipped(row, k) for k in range((BLOCK_PIXELS - 1) * stride + QUAD)}
            for pixel in range(BLOCK_PIXELS):
                pairs = []
                for first in (pixel * stride, pixel * stride + 2):
                    if first not in seen:
                        seen[first] = _pair(builder, columns[first], columns[first + 1])
                    pairs.append(seen[first])
                add(pixel, *pairs)
            step += 1
        for top in range(0, size, QUAD) if size > QUAD else ():
            for pixel in range(BLOCK_PIXELS):
                values = [flipped(min(top + k, size - 1), pixel * stride + QUAD) for k in range(QUAD)]
                add(pixel, _pair(builder, *values[:2]), _pair(builder, *values[2:]))
            step += 1
        for index, value in enumerate(value for pixel in sums for value in pixel):
            store(builder, value, builder.add(out, _int(index * LANES * 4)))
        return context.get_dummy_value()

    @intrinsic
    def block_tile(typing_context: Any, x: Any, column: Any, offsets: Any, w: Any, out: Any) -> Any:
        return types.void(*[types.intp] * 5), codegen

    return block_tile


def _columns_tile(context: Any, builder: ir.IRBuilder, size: int, stride: int, args: Sequence[ir.Value]) -> ir.Value:
    """:func:`make_block_tile` with AVX2: rows of a column side by side serve all pixels that see it.

    The sums of half of the channels leave room for all that is read.
    """
    x, column, offsets, w, out = args
    rows = [builder.add(x, load(builder, builder.add(offsets, _int(8 * size * row)), I64)) for row in range(size)]
    tops = range(0, size, QUAD)
    for upper in (False, True):
        sums = [[ir.Constant(VECTOR, None)] * 2 for _ in range(BLOCK_PIXELS)]
        for index in range((BLOCK_PIXELS - 1) * stride + size):
            at = builder.mul(column, _int(index))
            values = [load(builder, builder.add(row, at), BYTES) for row in rows]
            seen = [(p, index - p * stride) for p in range(BLOCK_PIXELS) if 0 <= index - p * stride < size]
            for number, top in enumerate(tops):
                four = [values[min(top + k, size - 1)] for k in range(QUAD)]
                first, second = (_interleaved(builder, four[k], four[k + 1], BYTES, upper) for k in (0, 2))
                for v in range(2):
                    quads = builder.bitcast(_interleaved(builder, first, second, WORDS, bool(v)), VECTOR)
                    for pixel, k in seen:
                        step = (k * len(tops) + number) * BLOCK_VECTORS + 2 * upper + v
                        weights = load(builder, builder.add(w, _int(step * LANES * 4)), VECTOR)
                        sums[pixel][v] = dot_of_quads(builder, sums[pixel][v], quads, weights)
        for pixel, pair in enumerate(sums):
            for v, value in enumerate(pair):
                place = pixel * BLOCK_VECTORS + 2 * upper + v
                store(builder, value, builder.add(out, _int(place * LANES * 4)))
    return context.get_dummy_value()


@intrinsic
def requantize_block(
    typing_context: Any, acc: Any, y: Any, y_step: Any, count: Any, params: Any, pitch: Any, low: Any
) -> Any:
    """What :func:`engine.simulate.kernels.vector.make_requantize` gives, int8, for blocks of ``count`` pixels."""

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        if not WORDWISE:
            return context.get_dummy_value()
        acc, y, y_step, count, params, pitch, low = args

        def row_of(row: int, v: int, kind: ir.Type = VECTOR) -> ir.Value:
            return load(
                builder, builder.add(params, builder.add(builder.mul(pitch, _int(row)), _int(v * REGISTER))), kind
            )

        biases, rights = ([row_of(row, v) for v in range(BLOCK_VECTORS)] for row in (BIAS, RIGHT_SHIFT))
        words = [row_of(row, v, WORDS) for v in (0, 2) for row in (WORD_SCALE, WORD_SHIFT)]
        least = splat_bytes(builder, low)
        with cgutils.for_range(builder, count) as loop:
            source = builder.add(acc, builder.mul(loop.index, _int(BLOCK_VECTORS * LANES * 4)))
            sums = [load(builder, builder.add(source, _int(v * LANES * 4)), VECTOR) for v in range(BLOCK_VECTORS)]
            totals = [builder.add(total, bias) for total, bias in zip(sums, biases, strict=True)]
            value = requantized_bytes(builder, totals, rights, words, least)
            store(builder, value, builder.add(y, builder.mul(loop.index, y_step)))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), codegen


def _pair(builder: ir.IRBuilder, one: ir.Value, other: ir.Value) -> Pair:
    low, high = (_interleaved(builder, one, other, BYTES, upper) for upper in (False, True))
    return low, high


def _interleaved(builder: ir.IRBuilder, one: ir.Value, other: ir.Value, kind: ir.VectorType, upper: bool) -> ir.Value:
    """Elements of the lower or upper half of each 128 bits, one of either operand after the other."""
    one, other = (builder.bitcast(value, kind) for value in (one, other))
    size = INTERLEAVED * kind.count // BLOCK
    starts = [part * size + upper * size // 2 for part in range(BLOCK // INTERLEAVED)]
    order = [start + k // 2 + (k % 2) * kind.count for start in starts for k in range(size)]
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, kind.count), order))


def _int(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


block_3_1, block_3_2 = make_block_tile(3, 1), make_block_tile(3, 2)
block_5_1, block_5_2 = make_block_tile(5, 1), make_block_tile(5, 2)
