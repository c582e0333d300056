"""Kernels of element-wise operators and pooling."""

from __future__ import annotations

from typing import Any

from numba import int32

from engine.jit import compiled
from engine.native.registers import LANES
from engine.simulate.kernels.combine import make_combine
from engine.simulate.kernels.elementwise_rows import (
    ACCU_SHIFT,
    E_SCALE,
    E_SHIFT,
    HALF,
    HIGH_16,
    LOW_16,
    OFFSET,
    OUT_SHIFT,
    SCALE,
    SIDE_BY_SIDE,
    X_SHIFT,
)
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, store, widen
from engine.simulate.kernels.scalar import divided, shifted_left, shifted_right
from engine.simulate.kernels.shuffles import I8, I16, make_largest

largest_4, largest_8, largest_16, largest_64 = (make_largest(I8, count) for count in (4, 8, 16, 64))
add_int8, add_int16 = (make_combine(kind, multiply=False, repeats=False) for kind in (I8, I16))
add_one_int8, add_one_int16 = (make_combine(kind, multiply=False, repeats=True) for kind in (I8, I16))
multiply_int8, multiply_int16 = (make_combine(kind, multiply=True, repeats=False) for kind in (I8, I16))
multiply_by_one_int8, multiply_by_one_int16 = (make_combine(kind, multiply=True, repeats=True) for kind in (I8, I16))


@compiled
def elementwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Weighted sum or product of two operands that broadcast, requantised: units are the two outer dimensions.

    ``dims``: the shape of the result, the strides of x, e and y, in elements (0 where an operand repeats). The two
    inner dimensions are one block, dense in y, of which the parameters hold a value per element, or one for all.
    """
    dims = int64_at(f.dims, 16)
    if fits_registers(f, dims):
        for unit in range(begin, end):
            i, j = divided(unit, dims[1])
            combine_rows(f, arena, dims, i, j)
        return
    size = dims[2] * dims[3]
    last = -1
    for unit in range(begin, end):
        i, j = divided(unit, dims[1])
        fill_block(arena + f.x + (i * dims[4] + j * dims[5]) * f.x_bytes, f.x_bytes, dims, 4, scratch)
        e = arena + f.e + (i * dims[8] + j * dims[9]) * f.e_bytes
        if e != last:
            fill_block(e, f.e_bytes, dims, 8, scratch + size * 4)
            last = e
        x = int32_at(scratch, size)
        if f.wide:
            combine_wide(f, x, int32_at(scratch + size * 4, size))
        elif f.period == 1:
            combine_uniform(f, x, int32_at(scratch + size * 4, size))
        else:
            combine(f, x, int32_at(scratch + size * 4, size))
        store(x, arena + f.y + (i * dims[12] + j * dims[13]) * f.y_bytes, f.y_bytes)


@compiled
def fits_registers(f: Any, dims: Any) -> bool:
    """Whether a block is rows of int8, long enough, one behind the other or with one element of e, and the same
    parameters for all."""
    plain = f.period == 1 and not f.wide and f.x_bytes == 1 and f.e_bytes == 1
    return plain and row_length(dims) >= LANES and dims[7] == 1 and (dims[11] == 1 or dims[11] == 0)


@compiled
def row_length(dims: Any) -> Any:
    """Elements of a row; the whole block where the rows of both operands go on."""
    joined = dims[2] == 1 or (dims[6] == dims[3] and dims[10] == dims[3] * dims[11])
    return dims[2] * dims[3] if joined else dims[3]


@compiled
def combine_rows(f: Any, arena: int, dims: Any, i: int, j: int) -> None:
    """One block in vector registers."""
    x = arena + f.x + i * dims[4] + j * dims[5]
    e = arena + f.e + i * dims[8] + j * dims[9]
    y = arena + f.y + (i * dims[12] + j * dims[13]) * f.y_bytes
    length = row_length(dims)
    rows = 1 if length > dims[3] else dims[2]
    if f.y_bytes == 1:
        if f.multiply:
            if dims[11]:
                multiply_int8(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
            else:
                multiply_by_one_int8(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
        elif dims[11]:
            add_int8(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
        else:
            add_one_int8(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
    elif f.multiply:
        if dims[11]:
            multiply_int16(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
        else:
            multiply_by_one_int16(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
    elif dims[11]:
        add_int16(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)
    else:
        add_one_int16(x, dims[6], e, dims[10], y, rows, length, f.params, f.low, f.high)


@compiled
def fill_block(address: int, item_bytes: int, dims: Any, strides: int, target: int) -> None:
    """The two inner dimensions of an operand, widened to a dense block of int32."""
    rows, size = dims[2], dims[3]
    if dims[strides + 3] == 1 and dims[strides + 2] == size:
        widen(address, item_bytes, 1, int32_at(target, rows * size))
        return
    if dims[strides + 2] == 0 and dims[strides + 3] == 1:  # one row, which repeats
        widen(address, item_bytes, 1, int32_at(target, size))
        done = size
        while done < rows * size:
            more = min(done, rows * size - done)
            copy_bytes(target, target + done * 4, more * 4)
            done += more
        return
    for row in range(rows):
        source = address + row * dims[strides + 2] * item_bytes
        widen(source, item_bytes, dims[strides + 3], int32_at(target + row * size * 4, size))


@compiled
def combine_uniform(f: Any, x: Any, e: Any) -> None:
    """One block with the same parameters for all elements; nothing leaves 32 bits. The result replaces ``x``."""
    p = int32_at(f.params, 8)
    if f.multiply:
        offset = p[OFFSET]
        for c in range(len(x)):
            x[c] = x[c] * e[c] + offset
    else:
        x_shift, e_scale, e_shift = p[X_SHIFT], p[E_SCALE], p[E_SHIFT]
        for c in range(len(x)):
            x[c] = shifted_left(x[c], x_shift) + shifted_left(int32(e[c] * e_scale), e_shift)
    shift, scale, half, out = p[ACCU_SHIFT], p[SCALE], p[HALF], p[OUT_SHIFT]
    low, high = int32(f.low), int32(f.high)
    for c in range(len(x)):
        narrowed = clipped(shifted_right(x[c], shift), int32(LOW_16), int32(HIGH_16))
        x[c] = clipped(shifted_right(int32(narrowed * scale + half), out), low, high)


@compiled
def combine(f: Any, x: Any, e: Any) -> None:
    """The same with parameters for every element of a block."""
    size, low, high = len(x), int32(f.low), int32(f.high)
    if f.multiply:
        offset = row(f, OFFSET, size)
        for c in range(size):
            x[c] = x[c] * e[c] + offset[c]
    else:
        x_shift, e_scale, e_shift = row(f, X_SHIFT, size), row(f, E_SCALE, size), row(f, E_SHIFT, size)
        for c in range(size):
            x[c] = shifted_left(x[c], x_shift[c]) + shifted_left(int32(e[c] * e_scale[c]), e_shift[c])
    shift, scale, half, out = row(f, ACCU_SHIFT, size), row(f, SCALE, size), row(f, HALF, size), row(f, OUT_SHIFT, size)
    for c in range(size):
        narrowed = clipped(shifted_right(x[c], shift[c]), int32(LOW_16), int32(HIGH_16))
        x[c] = clipped(shifted_right(int32(narrowed * scale[c] + half[c]), out[c]), low, high)


@compiled
def clipped(value: int, low: int, high: int) -> int:
    """``value``, at least ``low`` and at most ``high``; all int32."""
    return min(max(value, low), high)


@compiled
def row(f: Any, index: int, size: int) -> Any:
    """Row ``index`` of the parameters."""
    return int32_at(f.params + index * size * 4, size)


@compiled
def combine_wide(f: Any, x: Any, e: Any) -> None:
    """The same in 64 bits, with int64 parameters."""
    size, low, high, multiply, period = len(x), f.low, f.high, f.multiply, f.period
    p = int64_at(f.params, 8 * period)
    for c in range(size):
        k = c % period
        if multiply:
            value = x[c] * e[c] + p[OFFSET * period + k]
        else:
            value = (x[c] << p[X_SHIFT * period + k]) + ((e[c] * p[E_SCALE * period + k]) << p[E_SHIFT * period + k])
        narrowed = min(max(value >> p[ACCU_SHIFT * period + k], LOW_16), HIGH_16)
        scaled = (narrowed * p[SCALE * period + k] + p[HALF * period + k]) >> p[OUT_SHIFT * period + k]
        x[c] = min(max(scaled, low), high)


@compiled
def max_pool(f: Any, arena: int, begin: int, end: int) -> None:
    """Window maximum of an already padded image: units are output rows."""
    offsets = int64_at(f.tap_offsets, f.taps)
    for out_y in range(begin, end):
        row = arena + f.x + out_y * f.stride_h * f.in_w * f.in_c * f.x_bytes
        for out_x in range(f.out_w):
            source = row + out_x * f.stride_w * f.in_c * f.x_bytes
            y = arena + f.y + (out_y * f.out_w + out_x) * f.in_c * f.x_bytes
            if f.x_bytes == 1:
                largest_of_taps(source, offsets, y, f.in_c)
            else:
                copy_bytes(source + offsets[0], y, f.in_c * 2)
                for tap in range(1, f.taps):
                    keep_larger(int16_at(source + offsets[tap], f.in_c), int16_at(y, f.in_c))


@compiled
def largest_of_taps(x: int, offsets: Any, y: int, size: int) -> None:
    """Window maximum of one pixel in vectors of int8; the last may overlap the one before, which changes nothing."""
    at, taps = offsets.ctypes.data, len(offsets)
    if size >= 64:
        for start in range(0, size - 63, 64):
            largest_64(x + start, at, taps, y + start)
        if size % 64:
            largest_64(x + size - 64, at, taps, y + size - 64)
    elif size >= 16:
        for start in range(0, size - 15, 16):
            largest_16(x + start, at, taps, y + start)
        if size % 16:
            largest_16(x + size - 16, at, taps, y + size - 16)
    elif size >= 8:
        largest_8(x, at, taps, y)
        if size > 8:
            largest_8(x + size - 8, at, taps, y + size - 8)
    elif size >= 4:
        largest_4(x, at, taps, y)
        if size > 4:
            largest_4(x + size - 4, at, taps, y + size - 4)
    else:
        copy_bytes(x + offsets[0], y, size)
        for tap in range(1, taps):
            keep_larger(int8_at(x + offsets[tap], size), int8_at(y, size))


@compiled
def keep_larger(x: Any, y: Any) -> None:
    """``y = max(x, y)``."""
    for c in range(len(y)):
        y[c] = max(x[c], y[c])


@compiled
def average_pool(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Window sum times an integer reciprocal, floored, of an already padded int8 image: units are output rows."""
    offsets = int64_at(f.tap_offsets, f.taps)
    total = int32_at(scratch, f.in_c)
    for out_y in range(begin, end):
        row = arena + f.x + out_y * f.stride_h * f.in_w * f.in_c
        for out_x in range(f.out_w):
            source = row + out_x * f.stride_w * f.in_c
            total[:] = 0
            for tap in range(f.taps):
                accumulate(int8_at(source + offsets[tap], f.in_c), total)
            multiply_and_shift(total, f.value, f.shift, f.low, f.high)
            store(total, arena + f.y + (out_y * f.out_w + out_x) * f.in_c, f.y_bytes)


@compiled
def accumulate(x: Any, total: Any) -> None:
    """``total += x``."""
    for c in range(len(total)):
        total[c] += x[c]


@compiled
def multiply_and_shift(values: Any, factor: int, shift: int, low: int, high: int) -> None:
    """``clip(int32(values * factor) >> shift, low, high)`` in place; the product wraps to int32."""
    for c in range(len(values)):
        values[c] = values[c] * factor
        values[c] = min(max(values[c] >> shift, low), high)


@compiled
def global_average(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Mean over an int8 map with both shifts rounded, or its sum where the result is int32: one unit."""
    total = int32_at(scratch, f.in_c)
    p = int64_at(f.params, 8 * f.in_c)
    size, pixels = f.in_c, f.in_h * f.in_w
    together = max(1, SIDE_BY_SIDE // size)
    side_by_side = int32_at(scratch, together * size)
    side_by_side[:] = 0
    whole = pixels - pixels % together
    for pixel in range(0, whole, together):
        accumulate(int8_at(arena + f.x + pixel * size, together * size), side_by_side)
    for index in range(1, together):
        accumulate(side_by_side[index * size : (index + 1) * size], total)
    for pixel in range(whole, pixels):
        accumulate(int8_at(arena + f.x + pixel * size, size), total)
    if f.y_bytes == 4:
        copy_bytes(scratch, arena + f.y, 4 * size)
        return
    for c in range(size):
        narrowed = min(max((total[c] + p[OFFSET * size + c]) >> p[ACCU_SHIFT * size + c], LOW_16), HIGH_16)
        scaled = (narrowed * p[SCALE * size + c] + p[HALF * size + c]) >> p[OUT_SHIFT * size + c]
        total[c] = min(max(scaled, f.low), f.high)
    store(total, arena + f.y, f.y_bytes)
