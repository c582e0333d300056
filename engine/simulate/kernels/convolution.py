"""Convolution kernels: dense and grouped as matrix products, depthwise tap by tap, requantisation fused."""

from __future__ import annotations

from typing import Any

from engine.simulate.kernels.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int64_at
from engine.simulate.kernels.vector import (
    I8,
    I16,
    LANES,
    PIXELS,
    REGISTERS,
    add_bias,
    make_add_residual,
    make_dot_tile,
    make_requantize,
    make_taps_tile,
)

MAX_VECTORS = len(REGISTERS.rows)
"""Vectors of output channels in the widest panel."""
TILE_ROWS = 48
"""Output pixels per tile: their int16 operands stay in the cache while all panels of weights pass."""
ACCUMULATOR_BYTES = max(rows * (k + 1) for k, rows in enumerate(REGISTERS.rows)) * LANES * 4

ROWS = REGISTERS.rows
ROWS_1, ROWS_2, ROWS_3, ROWS_4 = (ROWS[min(k, MAX_VECTORS - 1)] for k in range(4))
dot_tile_1, dot_tile_2, dot_tile_3, dot_tile_4 = (make_dot_tile(min(k, MAX_VECTORS)) for k in range(1, 5))
taps_tile_int8, taps_tile_int16 = make_taps_tile(I8), make_taps_tile(I16)
add_residual_int8, add_residual_int16 = make_add_residual(I8), make_add_residual(I16)
requantize_int8, requantize_int16 = make_requantize(I8), make_requantize(I16)

BIAS, RIGHT_SHIFT, SCALE, OUT_SHIFT, E_SCALE, E_LEFT, E_RIGHT = range(7)
"""Rows of the parameters of a convolution, int32."""


@compiled
def convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Dense or grouped convolution of an already padded image: units are tiles of pixels times parts of the channels.

    ``scratch`` holds a vector for partial stores, a tile of accumulators and a tile of int16 operands.
    """
    accumulators = scratch + LANES * 4
    operands = accumulators + ACCUMULATOR_BYTES
    panel_table = int64_at(f.panel_table, 3 * f.panels)
    pitch = f.pairs * 4
    pixels = f.out_h * f.out_w
    group_channels = f.out_c // f.groups
    for unit in range(begin, end):
        first = (unit // f.splits) * f.tile_rows
        rows = min(f.tile_rows, pixels - first)
        split = unit % f.splits
        for group in range(f.groups):
            gather(f, arena + f.x, operands, first, rows, group)
            for panel in range(split * f.panels // f.splits, (split + 1) * f.panels // f.splits):
                vectors, column = panel_table[3 * panel], panel_table[3 * panel + 1]
                weights = f.weights + group * f.group_weights + panel_table[3 * panel + 2]
                row = 0
                while row < rows:
                    step = dot_tile(vectors, operands + row * pitch, pitch, weights, f.pairs, accumulators)
                    count, channel = min(step, rows - row), group * group_channels + column
                    finish(
                        f, arena, scratch, accumulators, vectors, first + row, count, channel, group_channels - column
                    )
                    row += step


@compiled
def dot_tile(vectors: int, a: int, pitch: int, weights: int, pairs: int, out: int) -> int:
    """The tile kernel for that many vectors of channels; the number of rows it computed."""
    if vectors == 1:
        dot_tile_1(a, pitch, weights, pairs, out)
        return ROWS_1
    if vectors == 2:
        dot_tile_2(a, pitch, weights, pairs, out)
        return ROWS_2
    if vectors == 3:
        dot_tile_3(a, pitch, weights, pairs, out)
        return ROWS_3
    dot_tile_4(a, pitch, weights, pairs, out)
    return ROWS_4


@compiled
def gather(f: Any, x: int, operands: int, first: int, rows: int, group: int) -> None:
    """Copy what the dot products of ``rows`` pixels read to int16 rows of ``2 * pairs`` elements."""
    width = 2 * f.pairs
    used = f.taps * f.tap_length
    if f.taps == 1 and used == width == f.in_c and f.stride_h == 1 and f.stride_w == 1 and f.x_bytes == 1:
        # Pointwise: the rows lie one behind the other.
        whole, every = int16_at(operands, rows * width), int8_at(x + first * width, rows * width)
        for k in range(rows * width):
            whole[k] = every[k]
        return
    target = int16_at(operands, rows * width)
    offsets = int64_at(f.tap_offsets, f.taps)
    group_start = group * (f.in_c // f.groups) * f.x_bytes
    for row in range(rows):
        pixel = first + row
        corner = (pixel // f.out_w) * f.stride_h * f.in_w + (pixel % f.out_w) * f.stride_w
        source = x + corner * f.in_c * f.x_bytes + group_start
        at = row * width
        for tap in range(f.taps):
            if f.x_bytes == 1:
                piece = int8_at(source + offsets[tap], f.tap_length)
                for k in range(f.tap_length):
                    target[at + k] = piece[k]
            else:
                wide = int16_at(source + offsets[tap], f.tap_length)
                for k in range(f.tap_length):
                    target[at + k] = wide[k]
            at += f.tap_length
        if used < width:
            target[at] = 0


@compiled
def depthwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Depthwise convolution of an already padded image: units are output rows."""
    accumulators = scratch + LANES * 4
    step = f.stride_w * f.in_c * f.x_bytes
    for out_y in range(begin, end):
        row = arena + f.x + out_y * f.stride_h * f.in_w * f.in_c * f.x_bytes
        for channel in range(0, f.out_c, LANES):
            weights = f.weights + channel * 4
            for out_x in range(0, f.out_w, PIXELS):
                source = row + out_x * step + channel * f.x_bytes
                if f.x_bytes == 1:
                    taps_tile_int8(source, step, f.tap_offsets, f.taps, weights, f.params_pitch, accumulators)
                else:
                    taps_tile_int16(source, step, f.tap_offsets, f.taps, weights, f.params_pitch, accumulators)
                pixel, count = out_y * f.out_w + out_x, min(PIXELS, f.out_w - out_x)
                finish(f, arena, scratch, accumulators, 1, pixel, count, channel, f.out_c - channel)


@compiled
def finish(
    f: Any, arena: int, scratch: int, tile: int, vectors: int, pixel: int, pixels: int, channel: int, channels: int
) -> None:
    """Add bias and residual to a tile of accumulators (pixels, vectors, lanes), requantise and store it.

    The tile begins at output ``pixel`` and ``channel``; only ``channels`` of its columns exist.
    """
    e_bytes, y_bytes, out_c, low, high, pitch = f.e_bytes, f.y_bytes, f.out_c, f.low, f.high, f.params_pitch
    e, y = arena + f.e, arena + f.y
    for v in range(vectors):
        lanes = min(LANES, channels - v * LANES)
        if lanes <= 0:
            break
        start = channel + v * LANES
        bias = f.params + start * 4
        for i in range(pixels):
            accumulator = tile + (i * vectors + v) * LANES * 4
            at = (pixel + i) * out_c + start
            if e_bytes == 1:
                add_residual_int8(
                    accumulator, e + at, bias + E_SCALE * pitch, bias + E_LEFT * pitch, bias + E_RIGHT * pitch
                )
            elif e_bytes == 2:
                add_residual_int16(
                    accumulator, e + at * 2, bias + E_SCALE * pitch, bias + E_LEFT * pitch, bias + E_RIGHT * pitch
                )
            target = y + at * y_bytes if lanes == LANES else scratch
            if y_bytes == 4:
                add_bias(accumulator, bias, low, target)
            elif y_bytes == 1:
                requantize_int8(
                    accumulator,
                    bias,
                    bias + RIGHT_SHIFT * pitch,
                    bias + SCALE * pitch,
                    bias + OUT_SHIFT * pitch,
                    low,
                    high,
                    target,
                )
            else:
                requantize_int16(
                    accumulator,
                    bias,
                    bias + RIGHT_SHIFT * pitch,
                    bias + SCALE * pitch,
                    bias + OUT_SHIFT * pitch,
                    low,
                    high,
                    target,
                )
            if lanes < LANES:
                copy_bytes(scratch, y + at * y_bytes, lanes * y_bytes)
