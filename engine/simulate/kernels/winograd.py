"""Transforms for 3 x 3 windows of int8: four results of four products a channel each, where windows take nine.

Winograd's F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015) in integers: a
block of 2 x 2 results comes from 4 x 4 pixels. With ``B`` and ``A`` of the paper and twice its ``G``, the 16 products
of a pixel's and a weight's transform give four times the results, exactly modulo 2**32. Transformed pixels are at most
512, transformed weights 1,152: both are int16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types

from engine.jit import intrinsic
from engine.native.registers import LANES
from engine.simulate.kernels.tiles import BLOCK_SIDE, QUARTER, RUN, WINDOW_SIDE
from engine.simulate.kernels.vector import I8, I16, I64, VECTOR, addresses, load, store


def make_transform_pixels() -> Callable[..., None]:
    """Intrinsic ``(x, pixel, line, out, pitch)``: the factors of :data:`RUN` channels of a block from 4 x 4 pixels.

    Pixels are int8, ``pixel`` bytes apart in a line, and lines ``line`` bytes; factors are int16, ``pitch`` bytes
    from one to the next.
    """
    narrow, wide = ir.VectorType(I8, RUN), ir.VectorType(I16, RUN)

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        x, pixel, line, out, pitch = args

        def pixel_at(row: int, column: int) -> ir.Value:
            at = builder.add(builder.add(x, _times(builder, line, row)), _times(builder, pixel, column))
            return builder.sext(load(builder, at, narrow), wide)

        def one_way(d: Sequence[ir.Value]) -> list[ir.Value]:
            return [
                builder.sub(d[0], d[2]),
                builder.add(d[1], d[2]),
                builder.sub(d[2], d[1]),
                builder.sub(d[1], d[3]),
            ]

        columns = [one_way([pixel_at(row, column) for row in range(WINDOW_SIDE)]) for column in range(WINDOW_SIDE)]
        for row in range(WINDOW_SIDE):
            for column, value in enumerate(one_way([columns[column][row] for column in range(WINDOW_SIDE)])):
                store(builder, value, builder.add(out, _times(builder, pitch, row * WINDOW_SIDE + column)))
        return context.get_dummy_value()

    @intrinsic
    def transform(typing_context: Any, x: Any, pixel: Any, line: Any, out: Any, pitch: Any) -> Any:
        return addresses(5), codegen

    return transform


def make_transform_sums() -> Callable[..., None]:
    """Intrinsic ``(sums, pitch, y, pixel, line)``: four results of a vector of channels from the sums of products.

    Sums are int32, ``pitch`` bytes from one product's to the next one's; results int32, in 2 lines of 2 pixels.
    """

    def codegen(context: Any, builder: ir.IRBuilder, _: Any, args: Sequence[ir.Value]) -> ir.Value:
        sums, pitch, y, pixel, line = args

        def one_way(m: Sequence[ir.Value]) -> list[ir.Value]:
            return [
                builder.add(builder.add(m[0], m[1]), m[2]),
                builder.sub(builder.sub(m[1], m[2]), m[3]),
            ]

        def sum_at(row: int, column: int) -> ir.Value:
            return load(builder, builder.add(sums, _times(builder, pitch, row * WINDOW_SIDE + column)), VECTOR)

        columns = [one_way([sum_at(row, column) for row in range(WINDOW_SIDE)]) for column in range(WINDOW_SIDE)]
        bits = ir.Constant(VECTOR, [QUARTER] * LANES)
        for row in range(BLOCK_SIDE):
            for column, value in enumerate(one_way([columns[column][row] for column in range(WINDOW_SIDE)])):
                at = builder.add(builder.add(y, _times(builder, line, row)), _times(builder, pixel, column))
                store(builder, builder.ashr(value, bits), at)
        return context.get_dummy_value()

    @intrinsic
    def transform(typing_context: Any, sums: Any, pitch: Any, y: Any, pixel: Any, line: Any) -> Any:
        return addresses(5), codegen

    return transform


def _times(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    return builder.mul(value, ir.Constant(I64, count))
