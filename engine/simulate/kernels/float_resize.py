"""Kernel of float32 Resize; :mod:`engine.floats.resize` defines what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.jit import compiled
from engine.simulate.kernels.memory import copy_bytes, float32_at, int64_at


@compiled
def resize(f: Any, arena: int, scratch: int, begin: int, end: int) -> None:
    """Nearest neighbours, or bilinear, over the last two axes of float32 maps: units are output rows of all maps.

    x (in_c, in_h, in_w), y (in_c, out_h, out_w); ``weights`` and ``params``: weights of rows and of columns, float32
    (2, rows) and (2, columns), both 0 for nearest neighbours.
    """
    rows, columns = int64_at(f.rows_from, 2 * f.out_h), int64_at(f.columns_from, 2 * f.out_w)
    for row in range(begin, end):
        same = row > begin and rows[row] == rows[row - 1]
        if f.weights:
            mix_weights(f, row, float32_at(scratch, 4 * f.out_w))
        for plane in range(f.in_c):
            first = arena + f.x + plane * f.in_h * f.in_w * 4
            upper, y = first + rows[row] * f.in_w * 4, arena + f.y + (plane * f.out_h + row) * f.out_w * 4
            if f.weights:
                lower = float32_at(first + rows[f.out_h + row] * f.in_w * 4, f.in_w)
                mix(float32_at(upper, f.in_w), lower, columns, float32_at(scratch, 4 * f.out_w), float32_at(y, f.out_w))
            elif same:
                copy_bytes(y - f.out_w * 4, y, f.out_w * 4)
            else:
                pick(float32_at(upper, f.in_w), columns, float32_at(y, f.out_w))


@compiled
def mix_weights(f: Any, row: int, weights: Any) -> None:
    """What the four neighbours of every pixel of an output row count."""
    of_rows, of_columns = float32_at(f.weights, 2 * f.out_h), float32_at(f.params, 2 * f.out_w)
    upper, lower, size = of_rows[row], of_rows[f.out_h + row], f.out_w
    for k in range(size):
        weights[k] = of_columns[k] * upper
        weights[size + k] = of_columns[size + k] * upper
        weights[2 * size + k] = of_columns[k] * lower
        weights[3 * size + k] = of_columns[size + k] * lower


@compiled
def mix(upper: Any, lower: Any, columns: Any, weights: Any, y: Any) -> None:
    """One row from its four neighbours, in the order in which they are added."""
    size = len(y)
    for k in range(size):
        left, right = np.uint64(columns[k]), np.uint64(columns[size + k])
        total = weights[k] * upper[left] + weights[size + k] * upper[right]
        total += weights[2 * size + k] * lower[left]
        y[k] = total + weights[3 * size + k] * lower[right]


@compiled
def pick(x: Any, columns: Any, y: Any) -> None:
    """``y[k] = x[columns[k]]``."""
    for k in range(len(y)):
        y[k] = x[np.uint64(columns[k])]
