"""Sums and products of float32 over the first axis in the order of the original's runtime, compiled.

Results lie side by side in vectors of four: those take the first number, then four numbers at a time, two pairs of
them joined first, then the rest one by one. The last results, of which no four are left, take one number after the
other (Eigen's row-wise reductions).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]

_LANES = 4
"""Results that lie side by side in a vector, and numbers that these take at a time."""


@entry
def sums_of_columns(source: Floats, result: Floats) -> None:
    """Sums over the first axis.

    Args:
        source: shape (n, count), n at least 1, C-contiguous.
        result: shape (count,).
    """
    count = source.shape[1]
    whole = count - count % _LANES
    for place in range(count):
        result[place] = source[0, place]
    index = 1
    while index + _LANES <= len(source):
        a, b, c, d = source[index], source[index + 1], source[index + 2], source[index + 3]
        for place in range(whole):
            result[place] += (a[place] + b[place]) + (c[place] + d[place])
        for place in range(whole, count):
            result[place] = result[place] + a[place] + b[place] + c[place] + d[place]
        index += _LANES
    while index < len(source):
        for place in range(count):
            result[place] += source[index, place]
        index += 1


@entry
def products_of_columns(source: Floats, result: Floats) -> None:
    """Products over the first axis; shapes as for :func:`sums_of_columns`."""
    count = source.shape[1]
    whole = count - count % _LANES
    for place in range(count):
        result[place] = source[0, place]
    index = 1
    while index + _LANES <= len(source):
        a, b, c, d = source[index], source[index + 1], source[index + 2], source[index + 3]
        for place in range(whole):
            result[place] *= (a[place] * b[place]) * (c[place] * d[place])
        for place in range(whole, count):
            result[place] = result[place] * a[place] * b[place] * c[place] * d[place]
        index += _LANES
    while index < len(source):
        for place in range(count):
            result[place] *= source[index, place]
        index += 1
