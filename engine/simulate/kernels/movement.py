"""Kernels that move data: padding, strided copies, look-up tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, uint8_at
from engine.simulate.kernels.scalar import divided
from engine.simulate.kernels.shuffles import (
    I8,
    I16,
    I32,
    look_up_bytes,
    make_interleave,
    make_move,
    make_separate,
    make_transpose,
)

move_2, move_4, move_8, move_16 = make_move(2), make_move(4), make_move(8), make_move(16)
SHORT_RUN = 64
"""Bytes up to which a run is copied in pieces that may overlap; a loop for longer ones is worth its start."""
interleave_int8_2, interleave_int8_3, interleave_int8_4 = (make_interleave(I8, count) for count in (2, 3, 4))
interleave_int16_2, interleave_int16_3, interleave_int16_4 = (make_interleave(I16, count) for count in (2, 3, 4))
interleave_int32_2, interleave_int32_3, interleave_int32_4 = (make_interleave(I32, count) for count in (2, 3, 4))
separate_int8_2, separate_int8_3, separate_int8_4 = (make_separate(I8, count) for count in (2, 3, 4))
separate_int16_2, separate_int16_3, separate_int16_4 = (make_separate(I16, count) for count in (2, 3, 4))
separate_int32_2, separate_int32_3, separate_int32_4 = (make_separate(I32, count) for count in (2, 3, 4))
FEW = 4
"""Rows or columns of a matrix that are too few for square blocks."""
transpose_int8, transpose_int16, transpose_int32 = make_transpose(I8), make_transpose(I16), make_transpose(I32)


@compiled
def pad(f: Any, arena: int, begin: int, end: int) -> None:
    """Copy the image into a larger one whose border holds ``value``: units are rows of the result.

    With ``flip`` bytes are combined with it by exclusive or. Of a ``hollow`` one the border alone is written.
    """
    width = f.out_w * f.in_c
    for row in range(begin, end):
        y = arena + f.y + row * width * f.y_bytes
        if f.hollow:
            border_of_row(f, row, y, width)
        else:
            pad_row(f, arena, row, y, width)


@compiled
def border_of_row(f: Any, row: int, y: int, width: int) -> None:
    """What belongs to the border from the inside of row ``row``, which begins at ``y``, to that of the next one."""
    left, used, below = f.left * f.in_c, f.in_w * f.in_c, f.top + f.in_h
    if not f.top <= row < below:
        fill(y, width, f.y_bytes, f.value)
        return
    if row == f.top:
        fill(y, left, f.y_bytes, f.value)
    size = width - used if row + 1 < below else width - left - used
    fill(y + (left + used) * f.y_bytes, size, f.y_bytes, f.value)


@compiled
def pad_row(f: Any, arena: int, row: int, y: int, width: int) -> None:
    """Row ``row`` of the padded image, ``width`` elements, at ``y``."""
    used, left = f.in_w * f.in_c, f.left * f.in_c
    if not f.top <= row < f.top + f.in_h:
        fill(y, width, f.x_bytes, f.value)
        return
    x, inner = arena + f.x + (row - f.top) * used * f.x_bytes, y + left * f.x_bytes
    fill(y, left, f.x_bytes, f.value)
    if f.flip:
        flip_bytes(x, inner, used, f.flip)
    else:
        copy_bytes(x, inner, used * f.x_bytes)
    fill(inner + used * f.x_bytes, width - left - used, f.x_bytes, f.value)


@compiled
def flip_bytes(source: int, target: int, size: int, flip: int) -> None:
    """Copy ``size`` bytes, combined with ``flip`` by exclusive or."""
    read, written = uint8_at(source, size), uint8_at(target, size)
    for k in range(size):
        written[k] = read[k] ^ flip


@compiled
def fill(address: int, size: int, item_bytes: int, value: int) -> None:
    """``size`` elements of 1 or 2 bytes become ``value``; those of 4 bytes, floats, become 0."""
    if item_bytes == 1:
        bytes_ = int8_at(address, size)
        for k in range(size):
            bytes_[k] = value
    elif item_bytes == 4:
        floats = int32_at(address, size)
        for k in range(size):
            floats[k] = 0
    else:
        words = int16_at(address, size)
        for k in range(size):
            words[k] = value


@compiled
def strided_copy(f: Any, arena: int, begin: int, end: int) -> None:
    """Copy a 4-D tensor between layouts: units are its two outer dimensions.

    ``dims``: the shape, the strides of x and the strides of y, in elements; x begins ``start`` and y ``value`` bytes
    into its buffer.
    """
    dims = int64_at(f.dims, 12)
    for unit in range(begin, end):
        i, j = divided(unit, dims[1])
        x = arena + f.x + f.start + (i * dims[4] + j * dims[5]) * f.x_bytes
        y = arena + f.y + f.value + (i * dims[8] + j * dims[9]) * f.x_bytes
        if dims[7] == 1 and dims[11] == 1:
            copy_runs(x, dims[6] * f.x_bytes, y, dims[10] * f.x_bytes, dims[2], dims[3] * f.x_bytes)
        elif f.x_bytes == 8:
            copy_plane(int64_at(x, reach(dims, 4)), int64_at(y, reach(dims, 8)), dims)
        elif dims[6] == 1 and dims[11] == 1:
            transpose_plane(x, y, dims[2], dims[3], dims[7], dims[10], f.x_bytes)
        elif f.x_bytes == 1:
            copy_plane(uint8_at(x, reach(dims, 4)), uint8_at(y, reach(dims, 8)), dims)
        elif f.x_bytes == 2:
            copy_plane(int16_at(x, reach(dims, 4)), int16_at(y, reach(dims, 8)), dims)
        else:
            copy_plane(int32_at(x, reach(dims, 4)), int32_at(y, reach(dims, 8)), dims)


@compiled
def copy_runs(x: int, x_step: int, y: int, y_step: int, count: int, size: int) -> None:
    """``count`` runs of ``size`` bytes; short ones in two pieces that overlap, or in pieces of 16 bytes."""
    if size > SHORT_RUN or size == 1 or size == 3:
        for k in range(count):
            copy_bytes(x + k * x_step, y + k * y_step, size)
    elif size >= 16:
        for k in range(count):
            source, target = x + k * x_step, y + k * y_step
            for start in range(0, size - 15, 16):
                move_16(source + start, target + start)
            move_16(source + size - 16, target + size - 16)
    elif size >= 8:
        for k in range(count):
            move_8(x + k * x_step, y + k * y_step)
            move_8(x + k * x_step + size - 8, y + k * y_step + size - 8)
    elif size >= 4:
        for k in range(count):
            move_4(x + k * x_step, y + k * y_step)
            move_4(x + k * x_step + size - 4, y + k * y_step + size - 4)
    else:
        for k in range(count):
            move_2(x + k * x_step, y + k * y_step)


@compiled
def reach(dims: Any, strides: int) -> Any:
    """Elements that the two inner dimensions span with the strides that begin there."""
    return (dims[2] - 1) * dims[strides + 2] + (dims[3] - 1) * dims[strides + 3] + 1


@compiled
def copy_plane(x: Any, y: Any, dims: Any) -> None:
    """The two inner dimensions of :func:`strided_copy`, the longer one inside."""
    outer, inner = (2, 3) if dims[2] < dims[3] else (3, 2)
    for k in range(dims[outer]):
        x_start, y_start = k * dims[outer + 4], k * dims[outer + 8]
        for m in range(dims[inner]):
            y[y_start + m * dims[inner + 8]] = x[x_start + m * dims[inner + 4]]


@compiled
def transpose_plane(x: int, y: int, across: int, along: int, x_pitch: int, y_pitch: int, item_bytes: int) -> None:
    """``y[i, j] = x[j, i]`` for ``across`` i and ``along`` j; pitches of rows in elements."""
    if 2 <= along <= FEW and y_pitch == along:
        done = interleave(x, y, across, along, x_pitch, item_bytes)
        x, y, across = x + done * item_bytes, y + done * along * item_bytes, across - done
    elif 2 <= across <= FEW and x_pitch == across:
        done = separate(x, y, along, across, y_pitch, item_bytes)
        x, y, along = x + done * across * item_bytes, y + done * item_bytes, along - done
    size = 16 // item_bytes
    for j in range(0, along - size + 1, size):
        for i in range(0, across - size + 1, size):
            source, target = x + (j * x_pitch + i) * item_bytes, y + (i * y_pitch + j) * item_bytes
            if item_bytes == 1:
                transpose_int8(source, x_pitch, target, y_pitch)
            elif item_bytes == 2:
                transpose_int16(source, 2 * x_pitch, target, 2 * y_pitch)
            else:
                transpose_int32(source, 4 * x_pitch, target, 4 * y_pitch)
    done_i, done_j = across - across % size, along - along % size
    rest_of_plane(x, y, across, done_j, along, x_pitch, y_pitch, item_bytes)
    right_x, right_y = x + done_i * item_bytes, y + done_i * y_pitch * item_bytes
    rest_of_plane(right_x, right_y, across - done_i, 0, done_j, x_pitch, y_pitch, item_bytes)


@compiled
def interleave(x: int, y: int, across: int, rows: int, pitch: int, item_bytes: int) -> int:
    """Some elements of two, three or four rows, brought together in registers; of how many columns."""
    run = 16 // item_bytes
    whole = across - across % run
    for i in range(0, whole, run):
        source, target = x + i * item_bytes, y + i * rows * item_bytes
        if item_bytes == 1:
            if rows == 2:
                interleave_int8_2(source, pitch, target)
            elif rows == 3:
                interleave_int8_3(source, pitch, target)
            else:
                interleave_int8_4(source, pitch, target)
        elif item_bytes == 2:
            if rows == 2:
                interleave_int16_2(source, 2 * pitch, target)
            elif rows == 3:
                interleave_int16_3(source, 2 * pitch, target)
            else:
                interleave_int16_4(source, 2 * pitch, target)
        elif rows == 2:
            interleave_int32_2(source, 4 * pitch, target)
        elif rows == 3:
            interleave_int32_3(source, 4 * pitch, target)
        else:
            interleave_int32_4(source, 4 * pitch, target)
    return whole


@compiled
def separate(x: int, y: int, along: int, rows: int, pitch: int, item_bytes: int) -> int:
    """Some pairs, triples or quadruples, divided into their rows in registers; how many of them."""
    run = 16 // item_bytes
    whole = along - along % run
    for j in range(0, whole, run):
        source, target = x + j * rows * item_bytes, y + j * item_bytes
        if item_bytes == 1:
            if rows == 2:
                separate_int8_2(source, target, pitch)
            elif rows == 3:
                separate_int8_3(source, target, pitch)
            else:
                separate_int8_4(source, target, pitch)
        elif item_bytes == 2:
            if rows == 2:
                separate_int16_2(source, target, 2 * pitch)
            elif rows == 3:
                separate_int16_3(source, target, 2 * pitch)
            else:
                separate_int16_4(source, target, 2 * pitch)
        elif rows == 2:
            separate_int32_2(source, target, 4 * pitch)
        elif rows == 3:
            separate_int32_3(source, target, 4 * pitch)
        else:
            separate_int32_4(source, target, 4 * pitch)
    return whole


@compiled
def rest_of_plane(
    x: int, y: int, across: int, begin: int, end: int, x_pitch: int, y_pitch: int, item_bytes: int
) -> None:
    """The same for j from ``begin`` to ``end``, element by element."""
    if begin == end or across == 0:
        return
    x_size, y_size = (end - 1) * x_pitch + across, (across - 1) * y_pitch + end
    if item_bytes == 1:
        swap_axes(int8_at(x, x_size), int8_at(y, y_size), across, begin, end, x_pitch, y_pitch)
    elif item_bytes == 2:
        swap_axes(int16_at(x, x_size), int16_at(y, y_size), across, begin, end, x_pitch, y_pitch)
    else:
        swap_axes(int32_at(x, x_size), int32_at(y, y_size), across, begin, end, x_pitch, y_pitch)


@compiled
def swap_axes(x: Any, y: Any, across: int, begin: int, end: int, x_pitch: int, y_pitch: int) -> None:
    """``y[i, j] = x[j, i]``."""
    if across <= FEW:
        for i in range(across):
            for j in range(begin, end):
                y[i * y_pitch + j] = x[j * x_pitch + i]
        return
    for j in range(begin, end):
        for i in range(across):
            y[i * y_pitch + j] = x[j * x_pitch + i]


@compiled
def look_up(f: Any, arena: int, begin: int, end: int) -> None:
    """``y[i] = table[i % period][x[i]]``: units are runs of ``count`` elements, a multiple of ``period``."""
    for unit in range(begin, end):
        first = unit * f.count
        size = min(f.count, f.in_c - first)
        x, y = arena + f.x + first * f.x_bytes, arena + f.y + first * f.y_bytes
        if f.x_bytes == 1 and f.y_bytes == 1:
            if f.period == 1:
                done = look_up_bytes(x, f.table, y, size)
                x, y, size = x + done, y + done, size - done
            look_up_run(int8_at(x, size), int8_at(y, size), int8_at(f.table, 256 * f.period), f.period, 8)
        elif f.x_bytes == 1:
            look_up_run(int8_at(x, size), int16_at(y, size), int16_at(f.table, 256 * f.period), f.period, 8)
        elif f.y_bytes == 1:
            look_up_run(int16_at(x, size), int8_at(y, size), int8_at(f.table, 65536 * f.period), f.period, 16)
        else:
            look_up_run(int16_at(x, size), int16_at(y, size), int16_at(f.table, 65536 * f.period), f.period, 16)


@compiled
def look_up_run(x: Any, y: Any, tables: Any, period: int, bits: int) -> None:
    """One run of :func:`look_up`; a table has an entry for each integer of ``bits`` bits, the least one first."""
    least = -(1 << (bits - 1))
    if period == 1:
        for k in range(len(y)):
            y[k] = tables[np.int64(x[k]) - least]
    else:
        for start in range(0, len(y), period):
            for k in range(period):
                y[start + k] = tables[(k << bits) + np.int64(x[start + k]) - least]
