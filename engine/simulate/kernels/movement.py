"""Kernels that move data: padding, strided copies, look-up tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.simulate.kernels.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, uint8_at


@compiled
def pad(f: Any, arena: int, begin: int, end: int) -> None:
    """Copy the image into a larger one whose border holds ``value``: units are rows of the result."""
    width, used = f.out_w * f.in_c, f.in_w * f.in_c
    left = f.left * f.in_c
    for row in range(begin, end):
        y = arena + f.y + row * width * f.x_bytes
        inside = f.top <= row < f.top + f.in_h
        if not inside:
            fill(y, width, f.x_bytes, f.value)
        else:
            fill(y, left, f.x_bytes, f.value)
            copy_bytes(arena + f.x + (row - f.top) * used * f.x_bytes, y + left * f.x_bytes, used * f.x_bytes)
            fill(y + (left + used) * f.x_bytes, width - left - used, f.x_bytes, f.value)


@compiled
def fill(address: int, size: int, item_bytes: int, value: int) -> None:
    """``size`` elements of 1 or 2 bytes become ``value``."""
    if item_bytes == 1:
        bytes_ = int8_at(address, size)
        for k in range(size):
            bytes_[k] = value
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
        i, j = unit // dims[1], unit % dims[1]
        x = arena + f.x + f.start + (i * dims[4] + j * dims[5]) * f.x_bytes
        y = arena + f.y + f.value + (i * dims[8] + j * dims[9]) * f.x_bytes
        if dims[7] == 1 and dims[11] == 1:
            for k in range(dims[2]):
                copy_bytes(x + k * dims[6] * f.x_bytes, y + k * dims[10] * f.x_bytes, dims[3] * f.x_bytes)
        elif f.x_bytes == 1:
            copy_plane(uint8_at(x, reach(dims, 4)), uint8_at(y, reach(dims, 8)), dims)
        elif f.x_bytes == 2:
            copy_plane(int16_at(x, reach(dims, 4)), int16_at(y, reach(dims, 8)), dims)
        else:
            copy_plane(int32_at(x, reach(dims, 4)), int32_at(y, reach(dims, 8)), dims)


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
def look_up(f: Any, arena: int, begin: int, end: int) -> None:
    """``y[i] = table[i % period][x[i]]``: units are runs of ``count`` elements, a multiple of ``period``."""
    for unit in range(begin, end):
        first = unit * f.count
        size = min(f.count, f.in_c - first)
        x, y = arena + f.x + first * f.x_bytes, arena + f.y + first * f.y_bytes
        if f.x_bytes == 1 and f.y_bytes == 1:
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
