"""Kernels of float arithmetic on the CPU's side of a network, and of conversions between types."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.jit import compiled
from engine.simulate.kernels.memory import float32_at, float64_at, int8_at, int64_at
from engine.simulate.kernels.operations import ADD, DIVIDE, MULTIPLY, RAISE, SUBTRACT
from engine.simulate.kernels.scalar import divided


@compiled
def arithmetic(f: Any, arena: int, begin: int, end: int) -> None:
    """Sum, difference, product, quotient or larger of two floats that broadcast: units are the two outer dimensions.

    ``dims``: the shape of the result, the strides of x, e and y, in elements (0 where an operand repeats).
    """
    dims = int64_at(f.dims, 16)
    for unit in range(begin, end):
        i, j = divided(unit, dims[1])
        for k in range(dims[2]):
            x = arena + f.x + (i * dims[4] + j * dims[5] + k * dims[6]) * f.x_bytes
            e = arena + f.e + (i * dims[8] + j * dims[9] + k * dims[10]) * f.x_bytes
            y = arena + f.y + (i * dims[12] + j * dims[13] + k * dims[14]) * f.x_bytes
            x_size, e_size = (dims[3] - 1) * dims[7] + 1, (dims[3] - 1) * dims[11] + 1
            if f.x_bytes == 4:
                combine_rows(f, float32_at(x, x_size), float32_at(e, e_size), float32_at(y, dims[3]), dims)
            else:
                combine_rows(f, float64_at(x, x_size), float64_at(e, e_size), float64_at(y, dims[3]), dims)


@compiled
def combine_rows(f: Any, x: Any, e: Any, y: Any, dims: Any) -> None:
    """One row of :func:`arithmetic`, dense in y; operands that go on or repeat in loops that vectors can run."""
    if dims[7] == 1 and dims[11] == 1:
        combine(f, x, 1, e, 1, y)
    elif dims[7] == 1 and dims[11] == 0:
        combine(f, x, 1, e, 0, y)
    elif dims[7] == 0 and dims[11] == 1:
        combine(f, x, 0, e, 1, y)
    else:
        combine(f, x, dims[7], e, dims[11], y)


@compiled
def combine(f: Any, x: Any, x_step: int, e: Any, e_step: int, y: Any) -> None:
    """``y[k] = x[k * x_step] (operation) e[k * e_step]``."""
    if f.operation == ADD:
        for k in range(len(y)):
            y[k] = x[k * x_step] + e[k * e_step]
    elif f.operation == SUBTRACT:
        for k in range(len(y)):
            y[k] = x[k * x_step] - e[k * e_step]
    elif f.operation == MULTIPLY:
        for k in range(len(y)):
            y[k] = x[k * x_step] * e[k * e_step]
    elif f.operation == DIVIDE:
        for k in range(len(y)):
            y[k] = x[k * x_step] / e[k * e_step]
    elif f.operation == RAISE:
        for k in range(len(y)):
            y[k] = e[k * e_step] if x[k * x_step] < e[k * e_step] else x[k * x_step]


@compiled
def cast(f: Any, arena: int, begin: int, end: int) -> None:
    """float32 to float64, float64 to float32, or int8 to int64: units are runs of ``count`` elements."""
    for unit in range(begin, end):
        first = unit * f.count
        size = min(f.count, f.in_c - first)
        x, y = arena + f.x + first * f.x_bytes, arena + f.y + first * f.y_bytes
        if f.x_bytes == 1:
            as_integers(int8_at(x, size), int64_at(y, size))
        elif f.x_bytes == 4:
            as_doubles(float32_at(x, size), float64_at(y, size))
        else:
            as_singles(float64_at(x, size), float32_at(y, size))


@compiled
def as_integers(x: Any, y: Any) -> None:
    """The same values in int64."""
    for k in range(len(y)):
        y[k] = x[k]


@compiled
def as_doubles(x: Any, y: Any) -> None:
    """The same values in float64."""
    for k in range(len(y)):
        y[k] = x[k]


@compiled
def as_singles(x: Any, y: Any) -> None:
    """Values rounded to float32."""
    for k in range(len(y)):
        y[k] = np.float32(x[k])
