"""Products of stacks of matrices, requantised: the tiles of convolutions with weights that are packed as they come."""

from __future__ import annotations

from typing import Any

from engine.jit import compiled
from engine.native.registers import LANES
from engine.simulate.kernels.convolution import copy_run, dots, dots_of_quads
from engine.simulate.kernels.matrices import begin_matrices, end_matrices, register_place
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, uint8_at
from engine.simulate.kernels.results import requantize_int32
from engine.simulate.kernels.scalar import divided
from engine.simulate.kernels.tiles import (
    ACCUMULATOR_BYTES,
    BIAS,
    FINISHED_ROWS,
    MATRICES,
    MAX_VECTORS,
    PAIR,
    PARAMETER_ROWS,
    QUAD,
    STAGING_BYTES,
)
from engine.simulate.kernels.vector import I8, I16, copy_rows, make_pack, make_requantize

rounded_int8, rounded_int16 = make_requantize(I8, rounded=True), make_requantize(I16, rounded=True)
pack_quad, pack_pair_int8, pack_pair_int16 = make_pack(I8, QUAD), make_pack(I8, PAIR), make_pack(I16, PAIR)


@compiled
def product(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """``y = a @ b`` for stacks of matrices: units are tiles of rows, ``splits`` of them per matrix.

    ``tap_offsets``: byte offsets of a and b per matrix, int64 (stack, 2). ``scratch`` holds what :func:`convolution`
    has there, then the parameters with this matrix's bias, a row of bytes, and the packed b.
    """
    if MATRICES and f.quads:
        begin_matrices()
    offsets = int64_at(f.tap_offsets, 2 * f.groups)
    pitch, columns = f.steps * 4, f.panels * MAX_VECTORS * LANES
    operands = scratch + STAGING_BYTES + ACCUMULATOR_BYTES
    params = operands + f.group_weights
    packed = params + PARAMETER_ROWS * columns * 4 + pitch
    last = -1
    for unit in range(begin, end):
        matrix, split = divided(unit, f.splits)
        first = split * f.tile_rows
        rows = min(f.tile_rows, f.out_h - first)
        if offsets[2 * matrix + 1] != last:
            last = offsets[2 * matrix + 1]
            pack(f, arena + f.e + last, packed, params, columns)
        a, a_pitch = arena + f.x + offsets[2 * matrix] + first * f.in_c * f.x_bytes, f.in_c * f.x_bytes
        if f.quads and not MATRICES:
            copy_rows(a, a_pitch, operands, pitch, rows, f.in_c)
        elif not f.quads:
            for row in range(rows):
                copy_run(f, a + row * a_pitch, operands + row * pitch, f.in_c)
        if not (MATRICES and f.quads):
            a, a_pitch = operands, pitch
        for panel in range(f.panels):
            column = panel * MAX_VECTORS * LANES
            vectors = min(MAX_VECTORS, (f.out_c - column + LANES - 1) // LANES)
            for begun in range(0, rows, FINISHED_ROWS):
                count = min(FINISHED_ROWS, rows - begun)
                source, weights = a + begun * a_pitch, packed + column * pitch
                dots(f, source, a_pitch, count, vectors, weights, scratch + STAGING_BYTES)
                y = arena + f.y + ((matrix * f.out_h + first + begun) * f.out_c + column) * f.y_bytes
                finish_product(f, scratch, vectors, count, y, params + column * 4, columns * 4, f.out_c - column)
    if MATRICES and f.quads:
        end_matrices()


@compiled
def pack(f: Any, b: int, packed: int, params: int, columns: int) -> None:
    """Bring b into the form of weights, and what its columns add to all accumulators into the parameters' bias."""
    pitch, per_step = f.steps * 4, QUAD if f.quads else PAIR
    copy_bytes(f.params, params, PARAMETER_ROWS * columns * 4)
    ones = packed - pitch
    uint8_at(ones, pitch)[:] = 128
    for panel in range(f.panels):
        column = panel * MAX_VECTORS * LANES
        vectors = min(MAX_VECTORS, (f.out_c - column + LANES - 1) // LANES)
        target = packed + column * pitch
        for step in range(f.steps):
            source = b + (step * per_step * f.out_c + column) * f.e_bytes
            left = f.in_c - step * per_step
            for v in range(vectors):
                at = source + v * LANES * f.e_bytes
                if MATRICES and f.quads:
                    target = packed + column * pitch + register_place(v, step, vectors, f.steps)
                if left < per_step:
                    pack_rest(f, at, left, target)
                elif f.quads:
                    pack_quad(at, f.out_c, target)
                elif f.e_bytes == 1:
                    pack_pair_int8(at, f.out_c, target)
                else:
                    pack_pair_int16(at, f.out_c * 2, target)
                target += LANES * 4
        if f.quads and not MATRICES:
            surplus = params + (BIAS * columns + column) * 4
            dots_of_quads(1, vectors, ones, pitch, 1, 0, packed + column * pitch, f.steps, surplus)
            negate(int32_at(surplus, vectors * LANES))


@compiled
def pack_rest(f: Any, source: int, rows: int, target: int) -> None:
    """A last step of fewer rows; what lies behind them is 0."""
    int32_at(target, LANES)[:] = 0
    for row in range(rows):
        for lane in range(LANES):
            if f.quads:
                int8_at(target, 4 * LANES)[QUAD * lane + row] = int8_at(source + row * f.out_c, LANES)[lane]
            elif f.e_bytes == 1:
                int16_at(target, 2 * LANES)[PAIR * lane + row] = int8_at(source + row * f.out_c, LANES)[lane]
            else:
                int16_at(target, 2 * LANES)[PAIR * lane + row] = int16_at(source + row * f.out_c * 2, LANES)[lane]


@compiled
def negate(values: Any) -> None:
    """Change every sign."""
    for k in range(len(values)):
        values[k] = -values[k]


@compiled
def finish_product(
    f: Any, scratch: int, vectors: int, rows: int, y: int, params: int, params_pitch: int, columns: int
) -> None:
    """Requantise a tile of accumulators (rows, vectors, lanes) and store those of its columns that exist."""
    tile_step, y_step = vectors * LANES * 4, f.out_c * f.y_bytes
    for v in range(vectors):
        lanes = min(LANES, columns - v * LANES)
        accumulators, own, at = (
            scratch + STAGING_BYTES + v * LANES * 4,
            params + v * LANES * 4,
            y + v * LANES * f.y_bytes,
        )
        if lanes == LANES:
            rescale(f, accumulators, tile_step, at, y_step, rows, own, params_pitch)
        else:
            rescale(f, accumulators, tile_step, scratch, LANES * f.y_bytes, rows, own, params_pitch)
            for row in range(rows):
                copy_bytes(scratch + row * LANES * f.y_bytes, at + row * y_step, lanes * f.y_bytes)


@compiled
def rescale(
    f: Any, accumulators: int, tile_step: int, y: int, y_step: int, rows: int, params: int, params_pitch: int
) -> None:
    """Results of one vector of columns for some rows, in the width of the output."""
    if f.y_bytes == 1:
        rounded_int8(accumulators, tile_step, y, y_step, rows, params, params_pitch, f.low)
    elif f.y_bytes == 2:
        rounded_int16(accumulators, tile_step, y, y_step, rows, params, params_pitch, f.low)
    else:
        requantize_int32(accumulators, tile_step, y, y_step, rows, params, params_pitch, f.low)
