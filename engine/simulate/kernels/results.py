"""Results of convolutions: bias and residual added to accumulators, requantised and stored where they belong."""

from __future__ import annotations

from typing import Any

from engine.jit import compiled
from engine.native.registers import LANES
from engine.simulate.kernels.memory import copy_bytes
from engine.simulate.kernels.movement import FEW, flip_bytes, transpose_plane
from engine.simulate.kernels.packing import make_packed_rows, make_packed_tile
from engine.simulate.kernels.scalar import divided
from engine.simulate.kernels.shuffles import transpose_registers
from engine.simulate.kernels.tiles import AHEAD, BLOCK_VECTORS, CHAIN, MAX_VECTORS, QUAD_ROWS, ROWS
from engine.simulate.kernels.vector import F32, I8, I16, I32, make_add_residual, make_requantize

(ROWS_1, ROWS_2), (QUAD_ROWS_1, QUAD_ROWS_2) = ROWS[:2], QUAD_ROWS[:2]
add_residual_int8, add_residual_int16 = make_add_residual(I8), make_add_residual(I16)
requantize_int8, requantize_int16, requantize_int32 = make_requantize(I8), make_requantize(I16), make_requantize(I32)
requantize_float32 = make_requantize(F32)
packed_rows_1, packed_rows_2 = make_packed_rows(1), make_packed_rows(2)
packed_tile_1, packed_tile_2 = make_packed_tile(ROWS_1, 1), make_packed_tile(ROWS_2, 2)
streamed_tile = make_packed_tile(ROWS_2, 2, ahead=AHEAD)
quad_tile_1 = make_packed_tile(QUAD_ROWS_1, 1, CHAIN > 1)
quad_tile_2 = make_packed_tile(QUAD_ROWS_2, 2, CHAIN > 1)


@compiled
def finish_lines(
    f: Any,
    arena: int,
    scratch: int,
    accumulators: int,
    pixel: int,
    column: int,
    rows: int,
    line: int,
    width: int,
    vectors: int,
    channel: int,
    channels: int,
    y: int,
    z: int,
) -> None:
    """Results of a panel for some positions from one on, whose dot products are there.

    They are at most :data:`~engine.simulate.kernels.tiles.FINISHED_ROWS`.
    """
    y_step, y_line = f.block_columns * f.y_pitch, f.block_rows * f.y_line
    z_step, z_line = f.block_columns * f.z_pitch, f.block_rows * f.z_line
    done = 0
    while done < rows:
        inside = min(rows - done, width - column)
        if inside > 0:
            tile = accumulators + done * vectors * LANES * 4
            finish(f, arena, scratch, tile, vectors, pixel, inside, channel, channels, y, z)
        # On to the next line.
        left = line - column
        y, z = y + left * y_step + y_line - line * y_step, z + left * z_step + z_line - line * z_step
        done, column, pixel = done + left, 0, pixel + width - column


@compiled
def finish(
    f: Any,
    arena: int,
    scratch: int,
    tile: int,
    vectors: int,
    pixel: int,
    pixels: int,
    channel: int,
    channels: int,
    y: int,
    z: int,
) -> None:
    """Add bias and residual to a tile of accumulators (pixels, vectors, lanes), requantise and store it.

    The tile begins at output ``pixel`` and ``channel``; only ``channels`` of its columns exist. It belongs at ``y``
    and, unless that is 0, at ``z``.
    """
    tile_step, e_step, y_step = vectors * LANES * 4, f.out_c * f.e_bytes, f.block_columns * f.y_pitch
    existing = min(vectors, divided(channels + LANES - 1, LANES)[0])
    for v in range(existing if f.e_bytes else 0):
        start = channel + v * LANES
        e = arena + f.e + (pixel * f.out_c + start) * f.e_bytes
        accumulators, params = tile + v * LANES * 4, f.params + start * 4
        if f.e_bytes == 1:
            add_residual_int8(accumulators, tile_step, e, e_step, pixels, params, f.params_pitch)
        else:
            add_residual_int16(accumulators, tile_step, e, e_step, pixels, params, f.params_pitch)
    if f.packs and not f.flip and not z and fills(f, channels, vectors * LANES):
        together = pixels - written_again(channels, vectors * LANES)
        if together >= BLOCK_VECTORS // vectors:
            packed(f, tile, vectors, y, y_step, together, f.params + channel * 4)
            tile, y, pixels = tile + together * tile_step, y + together * y_step, pixels - together
    for v in range(existing):
        lanes = min(LANES, channels - v * LANES)
        accumulators, params = tile + v * LANES * 4, f.params + (channel + v * LANES) * 4
        if f.planes:
            requantize(f, accumulators, tile_step, scratch, LANES * 4, pixels, params)
            plane = f.planes * 4
            if MAX_VECTORS == BLOCK_VECTORS:  # AVX-512
                for begun in range(0, pixels, LANES):
                    source, target = scratch + begun * LANES * 4, y + v * LANES * plane + begun * 4
                    transpose_registers(source, LANES * 4, target, plane, lanes, min(LANES, pixels - begun))
                continue
            for begun in range(0, lanes, FEW):
                source, target = scratch + begun * 4, y + (v * LANES + begun) * plane
                transpose_plane(source, target, min(FEW, lanes - begun), pixels, LANES, f.planes, 4)
            continue
        first = y + v * LANES * f.y_bytes
        if f.flip or z:
            whole = 0
        elif lanes == LANES:
            whole = pixels
        elif lanes * f.y_bytes == y_step:
            # What is written behind a pixel's channels, the next pixels of the tile write again.
            whole = max(0, pixels - (LANES - 1) // lanes)
        else:
            whole = 0
        requantize(f, accumulators, tile_step, first, y_step, whole, params)
        if whole < pixels:
            last = accumulators + whole * tile_step
            requantize(f, last, tile_step, scratch, LANES * f.y_bytes, pixels - whole, params)
            for i in range(pixels - whole):
                source, target = scratch + i * LANES * f.y_bytes, first + (whole + i) * y_step
                if f.flip:
                    flip_bytes(source, target, lanes, f.flip)
                else:
                    copy_bytes(source, target, lanes * f.y_bytes)
                if z:
                    flip_bytes(source, z + v * LANES + (whole + i) * f.block_columns * f.z_pitch, lanes, f.z_flip)


@compiled
def fills(f: Any, channels: int, lanes: int) -> bool:
    """Whether rows of ``lanes`` int8 can be stored for ``channels`` that exist, in order, but for the last pixels.

    What is written behind a pixel's channels must be the next pixels', all of which is written again.
    """
    return bool(lanes <= channels or (channels == f.out_c and f.block_columns * f.y_pitch == channels))


@compiled
def written_again(channels: int, lanes: int) -> int:
    """The pixels that what is written behind one's ``channels`` may reach."""
    return 0 if lanes <= channels else divided(lanes - 1, channels)[0]


@compiled
def packed_rows_of(f: Any, vectors: int) -> int:
    """Rows of a tile of so many vectors, one or two, whose results leave the registers packed."""
    if vectors == 1:
        return QUAD_ROWS_1 if f.quads else ROWS_1
    return QUAD_ROWS_2 if f.quads else ROWS_2


@compiled
def packed_tiles(
    f: Any, a: int, pitch: int, rows: int, vectors: int, weights: int, y: int, y_step: int, params: int
) -> None:
    """int8 results of whole tiles of neighbouring pixels and whole vectors of channels."""
    if vectors == 1 and f.quads:
        for _ in range(0, rows, QUAD_ROWS_1):
            quad_tile_1(a, pitch, f.pieces, f.piece_pitch, weights, f.steps, y, y_step, params, f.params_pitch, f.low)
            a, y = a + QUAD_ROWS_1 * pitch, y + QUAD_ROWS_1 * y_step
    elif f.quads:
        for _ in range(0, rows, QUAD_ROWS_2):
            quad_tile_2(a, pitch, f.pieces, f.piece_pitch, weights, f.steps, y, y_step, params, f.params_pitch, f.low)
            a, y = a + QUAD_ROWS_2 * pitch, y + QUAD_ROWS_2 * y_step
    elif vectors == 1:
        for _ in range(0, rows, ROWS_1):
            packed_tile_1(a, pitch, f.pieces, f.piece_pitch, weights, f.steps, y, y_step, params, f.params_pitch, f.low)
            a, y = a + ROWS_1 * pitch, y + ROWS_1 * y_step
    else:
        first = 0
        if f.streams:
            streamed_tile(a, pitch, f.pieces, f.piece_pitch, weights, f.steps, y, y_step, params, f.params_pitch, f.low)
            first, a, y = ROWS_2, a + ROWS_2 * pitch, y + ROWS_2 * y_step
        for _ in range(first, rows, ROWS_2):
            packed_tile_2(a, pitch, f.pieces, f.piece_pitch, weights, f.steps, y, y_step, params, f.params_pitch, f.low)
            a, y = a + ROWS_2 * pitch, y + ROWS_2 * y_step


@compiled
def packed(f: Any, tile: int, vectors: int, y: int, y_step: int, pixels: int, params: int) -> None:
    """int8 results of whole vectors of channels; the last of the pixels are computed twice where a register is left."""
    together = BLOCK_VECTORS // vectors
    whole, step = pixels - pixels % together, vectors * LANES * 4
    for first, count in ((0, whole), (pixels - together, together if whole < pixels else 0)):
        source, target = tile + first * step, y + first * y_step
        if vectors == 1:
            packed_rows_1(source, step, target, y_step, count, params, f.params_pitch, f.low)
        else:
            packed_rows_2(source, step, target, y_step, count, params, f.params_pitch, f.low)


@compiled
def requantize(f: Any, accumulators: int, tile_step: int, y: int, y_step: int, pixels: int, params: int) -> None:
    """Results of one vector of channels for some pixels, in the width of the output."""
    if f.y_bytes == 1:
        requantize_int8(accumulators, tile_step, y, y_step, pixels, params, f.params_pitch, f.low)
    elif f.y_bytes == 2:
        requantize_int16(accumulators, tile_step, y, y_step, pixels, params, f.params_pitch, f.low)
    elif f.floats:
        requantize_float32(accumulators, tile_step, y, y_step, pixels, params, f.params_pitch, f.low)
    else:
        requantize_int32(accumulators, tile_step, y, y_step, pixels, params, f.params_pitch, f.low)
