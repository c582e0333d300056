"""Kernels between integers and floats, and bilinear resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, float32_at, int8_at, int16_at, int32_at, int64_at, uint8_at
from engine.simulate.kernels.movement import transpose_plane
from engine.simulate.kernels.tiles import MIN_SCRATCH

INT32_LIMIT = np.float32(2**31)
ROUND_16 = 1 << 15


@compiled
def quantize(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """``rint(x / scale)``, saturated: units are runs of ``count`` elements.

    A run shares one of ``period`` scales, or with ``along`` has one for each of its elements. Where there are
    ``planes`` units are lines of an image, see :func:`quantize_line`. With ``indirect`` the operand is an int64, the
    address of what is quantised.
    """
    source = int64_at(arena + f.x, 1)[0] if f.indirect else arena + f.x
    if f.planes and f.in_c == 1:
        quantize_lines(f, source, arena, scratch, begin, end)
        return
    for unit in range(begin, end):
        if f.planes:
            quantize_line(f, source, arena, scratch, unit)
            continue
        x = float32_at(source + unit * f.count * 4, f.count)
        y, scale = arena + f.y + unit * f.count * f.y_bytes, scales_of(f, unit)
        if f.y_bytes == 1:
            quantize_run(x, int8_at(y, f.count), scale, np.float32(f.low), np.float32(f.high))
        else:
            quantize_run(x, int16_at(y, f.count), scale, np.float32(f.low), np.float32(f.high))


@compiled
def quantize_line(f: Any, source: int, arena: int, scratch: int, line: int) -> None:
    """A line of an image whose channels lie ``planes`` elements apart, to int8 with the channels of a pixel together.

    Lines of the result are ``y_line`` bytes apart; its bytes are combined with ``flip`` by exclusive or.
    """
    low, high, scales = np.float32(f.low), np.float32(f.high), float32_at(f.params, 1)
    for channel in range(f.in_c):
        x = float32_at(source + (channel * f.planes + line * f.in_w) * 4, f.in_w)
        quantize_run(x, int8_at(scratch + channel * f.in_w, f.in_w), scales, low, high)
    if f.flip:
        flip(uint8_at(scratch, f.in_c * f.in_w), f.flip)
    transpose_plane(scratch, arena + f.y + line * f.y_line, f.in_w, f.in_c, f.in_w, f.in_c, 1)


@compiled
def quantize_lines(f: Any, source: int, arena: int, scratch: int, begin: int, end: int) -> None:
    """:func:`quantize_line` of an image of one channel, many short lines at once: they lie behind each other."""
    low, high, scales = np.float32(f.low), np.float32(f.high), float32_at(f.params, 1)
    together = max(1, MIN_SCRATCH // f.in_w)
    for first in range(begin, end, together):
        lines = min(together, end - first)
        size = lines * f.in_w
        quantize_run(float32_at(source + first * f.in_w * 4, size), int8_at(scratch, size), scales, low, high)
        if f.flip:
            flip(uint8_at(scratch, size), f.flip)
        for line in range(lines):
            copy_bytes(scratch + line * f.in_w, arena + f.y + (first + line) * f.y_line, f.in_w)


@compiled
def flip(values: Any, by: int) -> None:
    """Combine bytes with ``by`` by exclusive or, where they lie."""
    for k in range(len(values)):
        values[k] ^= by


@compiled
def scales_of(f: Any, unit: int) -> Any:
    """The scale of a run, or those of its elements."""
    scales = float32_at(f.params, f.period)
    return scales if f.along else scales[unit % f.period : unit % f.period + 1]


@compiled
def quantize_run(x: Any, y: Any, scales: Any, low: Any, high: Any) -> None:
    """One run of :func:`quantize`; what does not fit an int32, and NaN, becomes ``low``."""
    scale = scales[0]
    if len(scales) == 1:
        for k in range(len(y)):
            ratio = np.rint(x[k] / scale)
            y[k] = np.int32(min(max(ratio, low), high) if abs(ratio) < INT32_LIMIT else low)
    else:
        for k in range(len(y)):
            ratio = np.rint(x[k] / scales[k])
            y[k] = np.int32(min(max(ratio, low), high) if abs(ratio) < INT32_LIMIT else low)


@compiled
def dequantize(f: Any, arena: int, begin: int, end: int) -> None:
    """``float32(x) * scale``: units and scales as in :func:`quantize`.

    With ``indirect`` an int64 lies at y, the address of the results.
    """
    target = int64_at(arena + f.y, 1)[0] if f.indirect else arena + f.y
    for unit in range(begin, end):
        y = float32_at(target + unit * f.count * 4, f.count)
        x, scale = arena + f.x + unit * f.count * f.x_bytes, scales_of(f, unit)
        if f.x_bytes == 1:
            dequantize_run(int8_at(x, f.count), y, scale)
        elif f.x_bytes == 2:
            dequantize_run(int16_at(x, f.count), y, scale)
        else:
            dequantize_run(int32_at(x, f.count), y, scale)


@compiled
def dequantize_run(x: Any, y: Any, scales: Any) -> None:
    """One run of :func:`dequantize`."""
    scale = scales[0]
    if len(scales) == 1:
        for k in range(len(y)):
            y[k] = np.float32(x[k]) * scale
    else:
        for k in range(len(y)):
            y[k] = np.float32(x[k]) * scales[k]


@compiled
def bilinear(f: Any, arena: int, begin: int, end: int) -> None:
    """Bilinear interpolation of an int8 image with 8-bit weights: units are output rows."""
    rows, columns = int64_at(f.rows_from, 3 * f.out_h), int64_at(f.columns_from, 3 * f.out_w)
    pitch, size = f.in_w * f.in_c, f.in_c
    for out_y in range(begin, end):
        upper, lower = arena + f.x + rows[3 * out_y] * pitch, arena + f.x + rows[3 * out_y + 1] * pitch
        for out_x in range(f.out_w):
            left, right = columns[3 * out_x] * size, columns[3 * out_x + 1] * size
            y = int8_at(arena + f.y + (out_y * f.out_w + out_x) * size, size)
            blend(
                int8_at(upper + left, size),
                int8_at(upper + right, size),
                int8_at(lower + left, size),
                int8_at(lower + right, size),
                y,
                columns[3 * out_x + 2],
                rows[3 * out_y + 2],
                f.twice,
            )


@compiled
def blend(a: Any, b: Any, c: Any, d: Any, y: Any, fx: int, fy: int, twice: int) -> None:
    """All channels of one pixel from its four neighbours."""
    for k in range(len(y)):
        upper = (256 - fx) * a[k] + fx * b[k]
        lower = (256 - fx) * c[k] + fx * d[k]
        if twice:
            y[k] = ((256 - fy) * (upper >> 8) + fy * (lower >> 8)) >> 8
        else:
            y[k] = ((256 - fy) * upper + fy * lower + ROUND_16) >> 16
