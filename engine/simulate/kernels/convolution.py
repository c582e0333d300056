"""Convolution kernels: dense and grouped as matrix products, depthwise tap by tap, requantisation fused.

Windows are gathered, or read in place where that takes less time.
"""

from __future__ import annotations

from typing import Any

from engine.jit import compiled, inlined
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.depthwise_blocks import block_3_1, block_3_2, block_5_1, block_5_2, requantize_block
from engine.simulate.kernels.finished_tiles import make_finished_tile
from engine.simulate.kernels.matrices import (
    add_step,
    begin_matrices,
    clear_sums,
    end_matrices,
    products,
    store_halves,
    store_sums,
)
from engine.simulate.kernels.memory import copy_bytes, int64_at
from engine.simulate.kernels.movement import pad_row
from engine.simulate.kernels.results import fills, finish, finish_lines, packed_rows_of, packed_tiles, written_again
from engine.simulate.kernels.scalar import divided
from engine.simulate.kernels.tiles import (
    ACCUMULATOR_BYTES,
    AHEAD,
    BLOCK,
    BLOCK_PIXELS,
    BLOCK_ROWS,
    BLOCK_SIDE,
    CHAIN,
    DEPTH,
    FEWER,
    FINISHED,
    FINISHED_ROWS,
    MATRICES,
    MAX_VECTORS,
    MOST_AT_ONCE,
    MOST_HIGH,
    MOST_WIDE,
    PAIR,
    PIXELS,
    PRODUCTS,
    QUAD,
    QUAD_ROWS,
    REGISTER_BYTES,
    ROW_BYTES,
    ROWS,
    RUN,
    STAGING_BYTES,
    STEP_BYTES,
    STREAMED,
)
from engine.simulate.kernels.vector import (
    I8,
    I16,
    copy_rows,
    flip_run,
    make_dot_tile,
    make_rows_tile,
    make_taps_tile,
    prefetch,
    widen_run,
)
from engine.simulate.kernels.winograd import make_transform_pixels, make_transform_sums

CACHE_LINE = 64
MASKS = REGISTERS.quads
"""Whether rows of windows are copied with masks (AVX-512)."""
QUADS = MASKS or CHAIN > 1
"""Whether any products are those of bytes."""
ROWS_1, ROWS_2, ROWS_3, ROWS_4 = (ROWS[min(k, MAX_VECTORS) - 1] for k in (1, 2, 3, 4))
QUAD_ROWS_1, QUAD_ROWS_2, QUAD_ROWS_3, QUAD_ROWS_4 = (QUAD_ROWS[min(k, MAX_VECTORS) - 1] for k in (1, 2, 3, 4))
tile_1, tile_2, tile_3, tile_4 = (
    make_dot_tile(ROWS[min(k, MAX_VECTORS) - 1], min(k, MAX_VECTORS)) for k in (1, 2, 3, 4)
)
streamed_tile = make_dot_tile(ROWS[-1], MAX_VECTORS, ahead=AHEAD)
row_1, row_2, row_3, row_4 = (make_dot_tile(1, min(k, MAX_VECTORS)) for k in (1, 2, 3, 4))
quad_tile_1, quad_tile_2, quad_tile_3, quad_tile_4 = (
    make_dot_tile(QUAD_ROWS[min(k, MAX_VECTORS) - 1], min(k, MAX_VECTORS), QUADS) for k in (1, 2, 3, 4)
)
quad_row_1, quad_row_2, quad_row_3, quad_row_4 = (make_dot_tile(1, min(k, MAX_VECTORS), QUADS) for k in (1, 2, 3, 4))
FINISHED_1, FINISHED_2, FINISHED_3, FINISHED_4 = (FINISHED[min(k, MAX_VECTORS) - 1] for k in (1, 2, 3, 4))
finished_tile_1, finished_tile_2, finished_tile_3, finished_tile_4 = (
    make_finished_tile(FINISHED[min(k, MAX_VECTORS) - 1], min(k, MAX_VECTORS)) for k in (1, 2, 3, 4)
)
sum_tile_1, sum_tile_2, sum_tile_3, sum_tile_4 = (
    make_finished_tile(FINISHED[min(k, MAX_VECTORS) - 1], min(k, MAX_VECTORS), residual=True) for k in (1, 2, 3, 4)
)
taps_tile_int8, taps_tile_int16 = make_taps_tile(I8), make_taps_tile(I16)
rows_tile_3_1, rows_tile_3_2 = make_rows_tile(I8, 3, 1), make_rows_tile(I8, 3, 2)
rows_tile_5_1, rows_tile_5_2 = make_rows_tile(I8, 5, 1), make_rows_tile(I8, 5, 2)
transform_pixels, transform_sums = make_transform_pixels(), make_transform_sums()


@compiled
def convolution(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Dense or grouped convolution of an already padded image: units are tiles of positions times parts of channels.

    Results belong to ``y``, and some to ``z`` too, images of which a pixel and a line lie so many bytes from the next:
    larger ones, it may be, of which they are a part. Of each position they are the channels of a block of
    ``block_rows`` times ``block_columns`` pixels. With ``indirect`` an int64 lies at ``y``, the address of the image.

    Positions are those of windows, as far apart as their pitch. They are the results' pixels, but for windows that are
    read in place with steps of one: these go on from row to row of the image, and some at the end of each row belong
    to no pixel. ``scratch`` holds a vector for partial stores, a tile of accumulators and a tile of gathered operands.
    """
    if FEWER and f.across:
        fewer_products(f, arena, scratch, begin, end)
        return
    if MATRICES:
        begin_matrices()
    operands = scratch + STAGING_BYTES + ACCUMULATOR_BYTES
    panel_table = int64_at(f.panel_table, 3 * f.panels)
    group_channels = divided(f.out_c, f.groups)[0]
    line, width, run, pitch = f.out_h * f.out_w, f.out_h * f.out_w, f.out_h * f.out_w, f.steps * STEP_BYTES
    if f.in_place and f.stride_h == f.stride_w == 1:
        line, width, run, pitch = f.in_w, f.out_w, (f.out_h - 1) * f.in_w + f.out_w, f.in_c * f.x_bytes
    elif f.in_place:
        line, width, run, pitch = f.out_w, f.out_w, f.out_w, f.stride_w * f.in_c * f.x_bytes
    elif f.block_rows * f.y_line != f.out_w * f.block_columns * f.y_pitch or f.z_line != f.out_w * f.z_pitch:
        line, width = f.out_w, f.out_w
    tiles_of_run = (run + f.tile_rows - 1) // f.tile_rows
    gathered = -1
    for unit in range(begin, end):
        tile, split = divided(unit, f.splits)
        part, index = divided(tile, tiles_of_run)
        first = index * f.tile_rows
        rows = min(f.tile_rows, run - first)
        first_panel, last_panel = divided(split * f.panels, f.splits)[0], divided((split + 1) * f.panels, f.splits)[0]
        source = operands
        if f.in_place:
            source = arena + f.x + part * f.stride_h * f.in_w * f.in_c * f.x_bytes + first * pitch
        for group in range(f.groups):
            if not f.in_place and first != gathered:
                gather(f, arena + f.x, operands, first, rows, group)
                gathered = first if f.groups == 1 else -1
            for panel in range(first_panel, last_panel):
                vectors, column = panel_table[3 * panel], panel_table[3 * panel + 1]
                weights = f.weights + group * f.group_weights + panel_table[3 * panel + 2]
                finished_panel(
                    f,
                    arena,
                    scratch,
                    source,
                    pitch,
                    part,
                    first,
                    rows,
                    line,
                    width,
                    vectors,
                    weights,
                    group * group_channels + column,
                    group_channels - column,
                )
    if MATRICES:
        end_matrices()


@compiled
def fewer_products(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Dense convolution of 3 x 3 windows of int8 with steps of one: units are runs of blocks of 2 x 2 results times
    parts of channels.

    ``scratch`` holds a vector for partial stores, two lines of accumulators, the sums of each product of a run, and its
    factors.
    """
    panel_table = int64_at(f.panel_table, 3 * f.panels)
    lines = scratch + STAGING_BYTES
    sums = lines + 2 * ACCUMULATOR_BYTES
    operands = sums + PRODUCTS * (f.tile_rows + MOST_AT_ONCE) * MAX_VECTORS * LANES * 4
    pitch = f.steps * STEP_BYTES
    gathered, blocks = -1, f.across * ((f.out_h + 1) >> 1)
    for unit in range(begin, end):
        tile, split = divided(unit, f.splits)
        first = tile * f.tile_rows
        count = min(f.tile_rows, blocks - first)
        if first != gathered:
            gathered = first
            factors_of_pixels(f, arena + f.x, operands, first, count)
        first_panel, last_panel = divided(split * f.panels, f.splits)[0], divided((split + 1) * f.panels, f.splits)[0]
        for panel in range(first_panel, last_panel):
            vectors, channel = panel_table[3 * panel], panel_table[3 * panel + 1]
            row, weights = vectors * LANES * 4, f.weights + panel_table[3 * panel + 2]
            sums_pitch = (f.tile_rows + MOST_AT_ONCE) * row
            for product in range(PRODUCTS):
                a, w = operands + product * f.tile_rows * pitch, weights + product * f.steps * row
                dots(f, a, pitch, count, vectors, w, sums + product * sums_pitch)
            blocks_of_panel(f, arena, scratch, lines, sums, sums_pitch, first, count, vectors, channel)


@compiled
def factors_of_pixels(f: Any, x: int, operands: int, first: int, count: int) -> None:
    """The factors of a run of blocks: (16, ``f.tile_rows``, channels), int16, of which ``count`` rows are written."""
    pitch, line = f.steps * STEP_BYTES, f.in_w * f.in_c
    for block in range(count):
        down, across = divided(first + block, f.across)
        pixels, target = x + BLOCK_SIDE * (down * line + across * f.in_c), operands + block * pitch
        for channel in range(0, f.in_c, RUN):
            transform_pixels(pixels + channel, f.in_c, line, target + 2 * channel, f.tile_rows * pitch)


@compiled
def blocks_of_panel(
    f: Any,
    arena: int,
    scratch: int,
    lines: int,
    sums: int,
    sums_pitch: int,
    first: int,
    count: int,
    vectors: int,
    channel: int,
) -> None:
    """Results of a panel of channels for a run of blocks, whose sums of products are there."""
    row, done = vectors * LANES * 4, 0
    y = int64_at(arena + f.y, 1)[0] if f.indirect else arena + f.y
    y += within_block(f, channel, f.y_pitch, f.y_line)
    z = arena + f.z + within_block(f, channel, f.z_pitch, f.z_line) if f.z_bytes else 0
    while done < count:
        down, across = divided(first + done, f.across)
        run = min(min(count - done, f.across - across), FINISHED_ROWS // BLOCK_SIDE)
        for block in range(run):
            source, target = sums + (done + block) * row, lines + BLOCK_SIDE * block * row
            for v in range(vectors):
                at = v * LANES * 4
                transform_sums(source + at, sums_pitch, target + at, row, ACCUMULATOR_BYTES)
        column = BLOCK_SIDE * across
        width = min(BLOCK_SIDE * run, f.out_w - column)
        for k in range(min(BLOCK_SIDE, f.out_h - BLOCK_SIDE * down)):
            line = BLOCK_SIDE * down + k
            pixel, to = (
                line * f.out_w + column,
                y + line * f.block_rows * f.y_line + column * f.block_columns * f.y_pitch,
            )
            again = z + line * f.block_rows * f.z_line + column * f.block_columns * f.z_pitch if z else 0
            accumulators, left = lines + k * ACCUMULATOR_BYTES, f.out_c - channel
            finish(f, arena, scratch, accumulators, vectors, pixel, width, channel, left, to, again)
        done += run


@compiled
def results_of_panel(
    f: Any,
    arena: int,
    scratch: int,
    source: int,
    pitch: int,
    part: int,
    first: int,
    rows: int,
    line: int,
    width: int,
    vectors: int,
    weights: int,
    channel: int,
    channels: int,
) -> None:
    """Results of a panel of channels, of which ``channels`` exist, for ``rows`` positions from ``first`` on.

    Of each ``line`` of positions, from line ``part`` on, ``width`` are pixels. Whole tiles of int8 come straight from
    the registers, others by way of accumulators in memory.
    """
    height, params = finished_rows_of(vectors), f.params + channel * 4
    most = height if f.finishes else FINISHED_ROWS
    stored = min(channels, vectors * LANES)
    mask = (1 << stored) - 1 if stored < BLOCK else -1
    y_step, y_line = f.block_columns * f.y_pitch, f.block_rows * f.y_line
    z_step, z_line = f.block_columns * f.z_pitch, f.block_rows * f.z_line
    above, column = divided(first, line)
    pixel = (part + above) * width + column
    y = int64_at(arena + f.y, 1)[0] if f.indirect else arena + f.y
    y += within_block(f, channel, f.y_pitch, f.y_line) + (part + above) * y_line + column * y_step
    z = 0
    if f.z_bytes:
        z = arena + f.z + within_block(f, channel, f.z_pitch, f.z_line) + (part + above) * z_line + column * z_step
    tile_weights = f.pieces * f.steps * vectors * LANES * 4
    next_step = vectors * LANES * 4 * height // max(rows, height)
    following, next_tile = weights + tile_weights, f.pieces * f.steps * next_step
    packs, done = f.packs and fills(f, channels, vectors * LANES) and not (f.e_bytes or f.flip or z), 0
    last, together = written_again(channels, vectors * LANES), packed_rows_of(f, vectors)
    while done < rows:
        count = min(most, rows - done)
        if column >= width:  # between two lines
            count = min(line - column, rows - done)
        elif f.finishes and count == height and column + count <= line + width:
            e, a = arena + f.e + pixel * f.out_c + channel, source + done * pitch
            finished_tile(
                f, vectors, a, pitch, weights, following, next_step, params, mask, e, y, z, line, width, column, scratch
            )
        elif packs and together <= min(rows - done, width - column) - last:
            count = min(rows - done, width - column) - last
            count -= count % together
            packed_tiles(f, source + done * pitch, pitch, count, vectors, weights, y, y_step, params)
        else:
            dots(f, source + done * pitch, pitch, count, vectors, weights, scratch + STAGING_BYTES)
            sums = scratch + STAGING_BYTES
            finish_lines(f, arena, scratch, sums, pixel, column, count, line, width, vectors, channel, channels, y, z)
        following += next_tile
        done, column, pixel = done + count, column + count, pixel + count
        y, z = y + count * y_step, z + count * z_step
        while column >= line:
            column, pixel = column - line, pixel + width - line
            y, z = y + y_line - line * y_step, z + z_line - line * z_step


@compiled
def matrices_of_panel(
    f: Any,
    arena: int,
    scratch: int,
    source: int,
    pitch: int,
    part: int,
    first: int,
    rows: int,
    line: int,
    width: int,
    vectors: int,
    weights: int,
    channel: int,
    channels: int,
) -> None:
    """As :func:`results_of_panel` by products of matrices: some results are stored while the next are summed.

    Where all weights together are more than the second cache keeps, those of the next panel are brought into it.
    """
    above, column = divided(first, line)
    above += part
    sums_pitch = vectors * LANES * 4
    y = int64_at(arena + f.y, 1)[0] if f.indirect else arena + f.y
    y += within_block(f, channel, f.y_pitch, f.y_line)
    z = arena + f.z + within_block(f, channel, f.z_pitch, f.z_line) if f.z_bytes else 0
    done = summed = 0
    wide, spare = MOST_WIDE, scratch + STAGING_BYTES + ACCUMULATOR_BYTES - MOST_HIGH * MOST_WIDE * ROW_BYTES
    step, lines = STEP_BYTES, 0
    if not f.quads:
        wide, step = 1, 2 * STEP_BYTES
    following = weights + f.pieces * f.steps * vectors * LANES * step
    if f.groups == 1 and f.pieces * f.steps * f.out_c * step > STREAMED:
        blocks = divided(rows + MOST_HIGH - 1, MOST_HIGH)[0]
        lines = divided(MOST_WIDE * REGISTER_BYTES, CACHE_LINE * blocks)[0]
    sums, others = scratch + STAGING_BYTES, scratch + STAGING_BYTES + MOST_HIGH * sums_pitch
    for begun in range(0, rows + MOST_HIGH, MOST_HIGH):
        height, w = min(MOST_HIGH, rows - begun), weights
        for pair in range(0, vectors if height > 0 else 0, wide):
            clear_sums()
            for piece in range(f.pieces):
                a = source + begun * pitch + piece * f.piece_pitch
                for _ in range(f.steps // DEPTH):
                    for _ahead in range(lines):
                        prefetch(following)
                        following += CACHE_LINE
                    w = add_step(height, vectors - pair, a, pitch, w, f.quads)
                    a += ROW_BYTES
                    if done < summed:
                        place = (done, column, above)
                        done, column, above = some_results(
                            f, arena, scratch, others, place, summed, line, width, vectors, channel, channels, y, z
                        )
            if f.quads:
                store_sums(height, vectors - pair, sums + pair * LANES * 4, sums_pitch)
            else:
                store_halves(height, sums + pair * LANES * 4, sums_pitch, spare)
        while done < summed:
            place = (done, column, above)
            done, column, above = some_results(
                f, arena, scratch, others, place, summed, line, width, vectors, channel, channels, y, z
            )
        summed = begun + height
        sums, others = others, sums


@compiled
def some_results(
    f: Any,
    arena: int,
    scratch: int,
    sums: int,
    place: tuple[int, int, int],
    summed: int,
    line: int,
    width: int,
    vectors: int,
    channel: int,
    channels: int,
    y: int,
    z: int,
) -> tuple[int, int, int]:
    """Store results from ``place`` on, of which the sums of the :data:`MOST_HIGH` positions up to ``summed`` are there.

    Returns:
        The place behind them: position, column and line.
    """
    done, column, row = place
    count = min(line - column, summed - done)
    if column < width:  # else between two lines
        height = finished_rows_of(vectors) if f.finishes else MOST_HIGH
        count, pixel = min(height, summed - done), row * width + column
        tile = sums + (done & (MOST_HIGH - 1)) * vectors * LANES * 4
        y += row * f.block_rows * f.y_line + column * f.block_columns * f.y_pitch
        if z:
            z += row * f.block_rows * f.z_line + column * f.block_columns * f.z_pitch
        is_whole = column + height <= line + width if count == height else column + count >= width
        if f.finishes and is_whole and (count == height or column + height <= line):
            stored = min(channels, vectors * LANES)
            mask = (1 << stored) - 1 if stored < BLOCK else -1
            e, params = arena + f.e + pixel * f.out_c + channel, f.params + channel * 4
            finished_tile(f, vectors, tile, 0, 0, 0, 0, params, mask, e, y, z, line, width, column, scratch)
        else:
            finish_lines(f, arena, scratch, tile, pixel, column, count, line, width, vectors, channel, channels, y, z)
    done, column = done + count, column + count
    while column >= line:
        column, row = column - line, row + 1
    return done, column, row


finished_panel = matrices_of_panel if MATRICES else results_of_panel
"""What gives the results of a panel on this CPU."""


@compiled
def within_block(f: Any, channel: int, pitch: int, line: int) -> int:
    """Bytes from the first pixel of a block to ``channel`` of all its pixels, in an image of such pitches."""
    at: int = channel * f.y_bytes
    if f.planes:
        at *= f.planes
    elif f.block_rows * f.block_columns > 1:
        piece, inside = divided(channel, divided(f.out_c, f.block_rows * f.block_columns)[0])
        row, column = divided(piece, f.block_columns)
        at = row * line + column * pitch + inside * f.y_bytes
    return at


@compiled
def finished_rows_of(vectors: int) -> int:
    """Rows of results of so many vectors that are requantised together."""
    if vectors == 1:
        return FINISHED_1
    if vectors == 2:
        return FINISHED_2
    return FINISHED_3 if vectors == 3 else FINISHED_4


@inlined
def finished_tile(
    f: Any,
    vectors: int,
    a: int,
    pitch: int,
    weights: int,
    after: int,
    by: int,
    params: int,
    mask: int,
    e: int,
    y: int,
    z: int,
    line: int,
    width: int,
    column: int,
    trash: int,
) -> None:
    """One tile of requantised results, the residual ``e`` added where there is one; see :func:`make_finished_tile`."""
    if f.e_bytes:
        if vectors == 1:
            sum_tile_1(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
        elif vectors == 2:
            sum_tile_2(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
        elif vectors == 3:
            sum_tile_3(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
        else:
            sum_tile_4(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
    elif vectors == 1:
        finished_tile_1(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
    elif vectors == 2:
        finished_tile_2(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
    elif vectors == 3:
        finished_tile_3(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)
    else:
        finished_tile_4(f, a, pitch, weights, after, by, params, mask, e, y, z, line, width, column, trash)


@compiled
def dots(f: Any, source: int, pitch: int, rows: int, vectors: int, weights: int, out: int) -> None:
    """Dot products of rows of operands with a panel of ``vectors`` vectors of channels: (rows, vectors, lanes).

    Up to :data:`~engine.simulate.kernels.tiles.MOST_AT_ONCE` - 1 rows more are written behind them.
    """
    row = 0
    if f.streams and vectors == MAX_VECTORS and rows > 1:
        streamed_tile(source, pitch, f.pieces, f.piece_pitch, weights, f.steps, out)
        row = ROWS_4
    while row < rows:
        a, target = source + row * pitch, out + row * vectors * LANES * 4
        if f.quads:
            row += dots_of_quads(rows - row, vectors, a, pitch, f.pieces, f.piece_pitch, weights, f.steps, target)
        else:
            row += dots_of_pairs(rows - row, vectors, a, pitch, f.pieces, f.piece_pitch, weights, f.steps, target)


@compiled
def dots_of_pairs(
    rows: int, vectors: int, a: int, pitch: int, pieces: int, between: int, weights: int, steps: int, out: int
) -> int:
    """Dot products of up to ``rows`` rows of int16 with a panel of ``vectors`` vectors of channels; how many rows.

    A last tile may compute rows that do not exist; a single row has a kernel of its own.
    """
    if vectors == 1:
        if rows == 1:
            row_1(a, pitch, pieces, between, weights, steps, out)
        else:
            tile_1(a, pitch, pieces, between, weights, steps, out)
        return min(rows, ROWS_1)
    if vectors == 2:
        if rows == 1:
            row_2(a, pitch, pieces, between, weights, steps, out)
        else:
            tile_2(a, pitch, pieces, between, weights, steps, out)
        return min(rows, ROWS_2)
    if vectors == 3:
        if rows == 1:
            row_3(a, pitch, pieces, between, weights, steps, out)
        else:
            tile_3(a, pitch, pieces, between, weights, steps, out)
        return min(rows, ROWS_3)
    if rows == 1:
        row_4(a, pitch, pieces, between, weights, steps, out)
    else:
        tile_4(a, pitch, pieces, between, weights, steps, out)
    return min(rows, ROWS_4)


@compiled
def vector_dots_of_quads(
    rows: int, vectors: int, a: int, pitch: int, pieces: int, between: int, weights: int, steps: int, out: int
) -> int:
    """The same of rows of uint8.

    A last tile may compute rows that do not exist; a single row has a kernel of its own.
    """
    if vectors == 1:
        if rows == 1:
            quad_row_1(a, pitch, pieces, between, weights, steps, out)
        else:
            quad_tile_1(a, pitch, pieces, between, weights, steps, out)
        return min(rows, QUAD_ROWS_1)
    if vectors == 2:
        if rows == 1:
            quad_row_2(a, pitch, pieces, between, weights, steps, out)
        else:
            quad_tile_2(a, pitch, pieces, between, weights, steps, out)
        return min(rows, QUAD_ROWS_2)
    if vectors == 3:
        if rows == 1:
            quad_row_3(a, pitch, pieces, between, weights, steps, out)
        else:
            quad_tile_3(a, pitch, pieces, between, weights, steps, out)
        return min(rows, QUAD_ROWS_3)
    if rows == 1:
        quad_row_4(a, pitch, pieces, between, weights, steps, out)
    else:
        quad_tile_4(a, pitch, pieces, between, weights, steps, out)
    return min(rows, QUAD_ROWS_4)


dots_of_quads = products if MATRICES else vector_dots_of_quads
"""Dot products of int8 on this CPU: of rows as they are by matrices, else of uint8 that are 128 more."""


@compiled
def gather(f: Any, x: int, operands: int, first: int, rows: int, group: int) -> None:
    """Copy what the dot products of ``rows`` pixels read to rows of ``f.steps`` steps, uint8 or int16."""
    item = 1 if f.quads else 2
    width, used = f.steps * (QUAD if f.quads else PAIR), f.taps * f.tap_length
    if f.taps == 1 and used == width == f.in_c and f.stride_h == 1 and f.stride_w == 1 and f.x_bytes == 1:
        # Pointwise: the rows lie one behind the other.
        copy_run(f, x + first * width, operands, rows * width)
        return
    offsets = int64_at(f.tap_offsets, f.taps)
    # Stores might change the instruction for all that the compiler knows: what the loops need of it is read once.
    taps, length, out_w, pixel = f.taps, f.tap_length, f.out_w, f.in_c * f.x_bytes
    step, line, pitch, advance = f.stride_w * pixel, f.stride_h * f.in_w * pixel, width * item, f.tap_length * item
    out_y, out_x = divided(first, out_w)
    row, target, done = x + group * divided(f.in_c, f.groups)[0] * f.x_bytes + out_y * line, operands, 0
    while done < rows:
        count, source = min(rows - done, out_w - out_x), row + out_x * step
        if (MASKS and f.quads) or (MATRICES and f.x_bytes == item):
            for tap in range(taps):
                copy_rows(source + offsets[tap], step, target + tap * advance, pitch, count, length * item)
        else:
            for k in range(count):
                for tap in range(taps):
                    copy_run(f, source + offsets[tap] + k * step, target + k * pitch + tap * advance, length)
        done, target, row, out_x = done + count, target + count * pitch, row + line, 0


@compiled
def copy_run(f: Any, source: int, target: int, size: int) -> None:
    """Neighbouring elements of the image in the form of the dot products' operands."""
    if f.quads:
        flip_run(source, target, size)
    elif f.x_bytes == 1:
        widen_run(source, target, size)
    else:
        copy_bytes(source, target, size * 2)


@compiled
def depthwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Depthwise convolution of an already padded image: units are output rows times parts of the channels.

    The first ``panels`` blocks of channels are computed a block at a time, the others a vector at a time. Where rows
    are ``kept``, the image is not padded yet: each row is when a window first reaches it, in the place of one that no
    window needs any more. There are as many tables of taps as places that the first row of a window can have.
    """
    accumulators = scratch + STAGING_BYTES
    rows, line, padded = accumulators + ACCUMULATOR_BYTES, f.wide * f.x_bytes, 0
    step = f.stride_w * f.in_c * f.x_bytes
    parts = f.panels + (f.out_c - f.panels * BLOCK + LANES - 1) // LANES
    for unit in range(begin, end):
        out_y, split = divided(unit, f.splits)
        first, last = divided(split * parts, f.splits)[0], divided((split + 1) * parts, f.splits)[0]
        top, offsets = out_y * f.stride_h, f.tap_offsets
        row = arena + f.x + top * f.in_w * f.in_c * f.x_bytes
        if f.kept:
            for reached in range(max(padded, top), top + f.kept):
                pad_row(f, arena, reached, rows + divided(reached, f.kept)[1] * line, f.wide)
            padded, row, offsets = top + f.kept, rows, f.tap_offsets + divided(top, f.kept)[1] * f.taps * 8
        for part in range(first, min(last, f.panels)):
            one_block(f, part, row, offsets, arena + f.y + out_y * f.out_w * f.out_c, accumulators)
        for part in range(max(first, f.panels), last):
            channel = f.panels * BLOCK + (part - f.panels) * LANES
            weights = f.weights + channel * 4
            for begun in range(0, f.out_w, FINISHED_ROWS):
                count = min(FINISHED_ROWS, f.out_w - begun)
                for out_x in range(0, count, PIXELS):
                    source = row + (begun + out_x) * step + channel * f.x_bytes
                    window_tile(f, source, step, offsets, weights, accumulators + out_x * LANES * 4)
                pixel = out_y * f.out_w + begun
                y = arena + f.y + (pixel * f.out_c + channel) * f.y_bytes
                finish(f, arena, scratch, accumulators, 1, pixel, count, channel, f.out_c - channel, y, 0)


@compiled
def one_block(f: Any, block: int, row: int, offsets: int, y: int, accumulators: int) -> None:
    """A row of results of one block of channels."""
    source, target, column = row + block * BLOCK, y + block * BLOCK, f.in_c
    weights, params = f.panel_table + block * f.group_weights, f.params + block * BLOCK * 4
    for begun in range(0, f.out_w, BLOCK_ROWS):
        count = min(BLOCK_ROWS, f.out_w - begun)
        for out_x in range(begun, begun + count, BLOCK_PIXELS):
            x, out = source + out_x * f.stride_w * column, accumulators + (out_x - begun) * BLOCK * 4
            if f.rows == 3:
                if f.stride_w == 1:
                    block_3_1(x, column, offsets, weights, out)
                else:
                    block_3_2(x, column, offsets, weights, out)
            elif f.stride_w == 1:
                block_5_1(x, column, offsets, weights, out)
            else:
                block_5_2(x, column, offsets, weights, out)
        requantize_block(accumulators, target + begun * f.out_c, f.out_c, count, params, f.params_pitch, f.low)


@compiled
def window_tile(f: Any, x: int, step: int, offsets: int, weights: int, out: int) -> None:
    """The depthwise tile kernel that suits the window; ``rows`` is 0 for a window that has none of its own."""
    column = f.in_c * f.x_bytes
    if f.rows == 0:
        if f.x_bytes == 1:
            taps_tile_int8(x, step, offsets, f.taps, weights, f.params_pitch, out)
        else:
            taps_tile_int16(x, step, offsets, f.taps, weights, f.params_pitch, out)
    elif f.taps == 3 * f.rows:
        if f.stride_w == 1:
            rows_tile_3_1(x, column, offsets, f.rows, weights, f.params_pitch, out)
        else:
            rows_tile_3_2(x, column, offsets, f.rows, weights, f.params_pitch, out)
    elif f.stride_w == 1:
        rows_tile_5_1(x, column, offsets, f.rows, weights, f.params_pitch, out)
    else:
        rows_tile_5_2(x, column, offsets, f.rows, weights, f.params_pitch, out)
