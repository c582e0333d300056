"""Depthwise convolution in float32, compiled; :mod:`engine.floats.depthwise` has the order of its sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
BLOCK = 2048
"""Results that are summed at a time: they and what they are sums of stay in the first cache."""


@entry
def depthwise_maps(
    source: Floats,
    weight: Floats,
    bias: Floats,
    steps: Whole,
    bounds: Floats,
    planes: Floats,
    offsets: Whole,
    sums: Floats,
    result: Floats,
) -> None:
    """One sample: every channel convolved with its own kernel, the bias added, clipped.

    A channel is laid out with its padding, each phase of the strides as a plane of its own: a tap of the kernel is then
    an offset, and a row of results a run of memory, whatever the stride.

    Args:
        source: shape (channels, height, width).
        weight: shape (channels, taps), of 8 n + 1 taps.
        bias: shape (channels,).
        steps: strides of rows and columns, dilations, padding before the first row and column, rows and columns of the
            kernel, shape (8,).
        bounds: what results are clipped to, shape (2,).
        planes: zeros: one channel with its padding.
        offsets: room for those of the taps.
        sums: room for the results of one channel, with what lies between their rows.
        result: shape (channels, rows, columns), changed.
    """
    strides, dilations, pads = (steps[0], steps[1]), (steps[2], steps[3]), (steps[4], steps[5])
    kernel_rows, kernel_columns = steps[6], steps[7]
    columns = result.shape[2] + (kernel_columns - 1) * dilations[1] // strides[1]
    rows = result.shape[1] + (kernel_rows - 1) * dilations[0] // strides[0]
    for row in range(kernel_rows):
        for column in range(kernel_columns):
            y, x = row * dilations[0], column * dilations[1]
            plane = (y % strides[0]) * strides[1] + x % strides[1]
            offsets[row * kernel_columns + column] = (plane * rows + y // strides[0]) * columns + x // strides[1]
    for channel in range(result.shape[0]):
        _lay_out(source[channel], strides, pads, rows, columns, planes)
        for start in range(0, sums.size, BLOCK):
            part, shifted = sums[start : start + BLOCK], planes[start:]
            for first in range(0, offsets.size - 1, 8):
                _add_eight(shifted, offsets[first:], weight[channel, first:], first == 0, part)
            _finish(shifted[offsets[-1] :], weight[channel, -1], bias[channel], bounds[0], bounds[1], part)
        for row in range(result.shape[1]):
            line, found = result[channel, row], sums[row * columns :]
            for column in range(line.size):
                line[column] = found[column]


@entry
def _lay_out(
    channel: Floats, strides: tuple[int, int], pads: tuple[int, int], rows: int, columns: int, planes: Floats
) -> None:
    """Copy ``channel`` into ``planes``, whose padding is zero already."""
    stride, plane, width = strides[1], rows * columns, channel.shape[1]
    # With a stride of 2: where the columns 0, 2, ... and 1, 3, ... go, and how many of them fit.
    even, odd = (pads[1] & 1) * plane + pads[1] // 2, (1 - (pads[1] & 1)) * plane + (pads[1] + 1) // 2
    evens = max(0, min((width + 1) // 2, columns - pads[1] // 2))
    odds = max(0, min(width // 2, columns - (pads[1] + 1) // 2))
    for phase in range(strides[0]):
        row = max(0, -((phase - pads[0]) // strides[0]))
        y, base = row * strides[0] + phase - pads[0], phase * stride * plane + row * columns
        while row < rows and y < channel.shape[0]:
            line = channel[y]
            # Strides that the compiler knows become vector instructions.
            if stride == 1:
                to = planes[base + pads[1] : base + columns]
                for index in range(min(width, to.size)):
                    to[index] = line[index]
            elif stride == 2:
                first, second = planes[base + even : base + even + evens], planes[base + odd : base + odd + odds]
                for index in range(min(evens, odds)):
                    first[index] = line[2 * index]
                    second[index] = line[2 * index + 1]
                for index in range(odds, evens):
                    first[index] = line[2 * index]
                for index in range(evens, odds):
                    second[index] = line[2 * index + 1]
            else:
                for index in range(min(width, columns * stride - pads[1])):
                    column = index + pads[1]
                    planes[base + column % stride * plane + column // stride] = line[index]
            row, y, base = row + 1, y + strides[0], base + columns


@entry
def _add_eight(values: Floats, offsets: NDArray[Any], taps: Floats, is_first: bool, sums: Floats) -> None:
    """Add the products with eight taps: two groups of four, each summed by itself."""
    count = sums.size
    v0, v1 = values[offsets[0] : offsets[0] + count], values[offsets[1] : offsets[1] + count]
    v2, v3 = values[offsets[2] : offsets[2] + count], values[offsets[3] : offsets[3] + count]
    v4, v5 = values[offsets[4] : offsets[4] + count], values[offsets[5] : offsets[5] + count]
    v6, v7 = values[offsets[6] : offsets[6] + count], values[offsets[7] : offsets[7] + count]
    t0, t1, t2, t3, t4, t5, t6, t7 = taps[0], taps[1], taps[2], taps[3], taps[4], taps[5], taps[6], taps[7]
    if is_first:
        for i in range(count):
            group = ((v0[i] * t0 + v1[i] * t1) + v2[i] * t2) + v3[i] * t3
            sums[i] = group + (((v4[i] * t4 + v5[i] * t5) + v6[i] * t6) + v7[i] * t7)
    else:
        for i in range(count):
            group = ((v0[i] * t0 + v1[i] * t1) + v2[i] * t2) + v3[i] * t3
            sums[i] = (sums[i] + group) + (((v4[i] * t4 + v5[i] * t5) + v6[i] * t6) + v7[i] * t7)


@entry
def _finish(values: Floats, tap: np.float32, bias: np.float32, low: np.float32, high: np.float32, sums: Floats) -> None:
    """Add the product with the last tap and the bias; clip."""
    for i in range(sums.size):
        total = (sums[i] + values[i] * tap) + bias
        total = low if total < low else total
        sums[i] = high if total > high else total
