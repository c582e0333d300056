"""Kernels of element-wise operators and pooling."""

from __future__ import annotations

from typing import Any

from engine.simulate.kernels.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, int8_at, int16_at, int32_at, int64_at, store, widen

X_SHIFT, E_SCALE, E_SHIFT, OFFSET, ACCU_SHIFT, SCALE, HALF, OUT_SHIFT = range(8)
"""Rows of the parameters of an element-wise operator, int64, one value per index of the last axis."""
LOW_16, HIGH_16 = -32768, 32767


@compiled
def elementwise(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Weighted sum or product of two operands that broadcast, requantised: units are the two outer dimensions.

    ``dims``: the shape of the result, the strides of x and those of e, in elements (0 where an operand repeats).
    """
    dims = int64_at(f.dims, 12)
    size = dims[3]
    x, e = int32_at(scratch, size), int32_at(scratch + size * 4, size)
    for unit in range(begin, end):
        i, j = unit // dims[1], unit % dims[1]
        x_row = arena + f.x + (i * dims[4] + j * dims[5]) * f.x_bytes
        e_row = arena + f.e + (i * dims[8] + j * dims[9]) * f.e_bytes
        y_row = arena + f.y + unit * dims[2] * size * f.y_bytes
        for k in range(dims[2]):
            widen(x_row + k * dims[6] * f.x_bytes, f.x_bytes, dims[7], x)
            widen(e_row + k * dims[10] * f.e_bytes, f.e_bytes, dims[11], e)
            combine(f, x, e)
            store(x, y_row + k * size * f.y_bytes, f.y_bytes)


@compiled
def combine(f: Any, x: Any, e: Any) -> None:
    """One row of :func:`elementwise`; the result replaces ``x``."""
    size, low, high, multiply = len(x), f.low, f.high, f.multiply
    p = int64_at(f.params, 8 * size)
    for c in range(size):
        if multiply:
            value = x[c] * e[c] + p[OFFSET * size + c]
        else:
            value = (x[c] << p[X_SHIFT * size + c]) + ((e[c] * p[E_SCALE * size + c]) << p[E_SHIFT * size + c])
        narrowed = min(max(value >> p[ACCU_SHIFT * size + c], LOW_16), HIGH_16)
        scaled = (narrowed * p[SCALE * size + c] + p[HALF * size + c]) >> p[OUT_SHIFT * size + c]
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
            copy_bytes(source + offsets[0], y, f.in_c * f.x_bytes)
            for tap in range(1, f.taps):
                if f.x_bytes == 1:
                    keep_larger(int8_at(source + offsets[tap], f.in_c), int8_at(y, f.in_c))
                else:
                    keep_larger(int16_at(source + offsets[tap], f.in_c), int16_at(y, f.in_c))


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
    total[:] = 0
    for pixel in range(f.in_h * f.in_w):
        accumulate(int8_at(arena + f.x + pixel * f.in_c, f.in_c), total)
    size = f.in_c
    if f.y_bytes == 4:
        copy_bytes(scratch, arena + f.y, 4 * size)
        return
    for c in range(size):
        narrowed = min(max((total[c] + p[OFFSET * size + c]) >> p[ACCU_SHIFT * size + c], LOW_16), HIGH_16)
        scaled = (narrowed * p[SCALE * size + c] + p[HALF * size + c]) >> p[OUT_SHIFT * size + c]
        total[c] = min(max(scaled, f.low), f.high)
    store(total, arena + f.y, f.y_bytes)
