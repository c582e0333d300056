"""Means of float32 in a given order of sums, compiled, for :mod:`engine.floats.own_arithmetic`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]

_LANES = 4
"""Numbers that are summed side by side, and taken at a time."""


@entry
def mean_of_middle(source: Floats, result: Floats) -> None:
    """Mean over the middle axis: the first number, then the sums of four, each two pairs, then the rest one by one.

    Args:
        source: shape (outer, n, inner), C-contiguous.
        result: shape (outer, inner), C-contiguous.
    """
    outer, count, inner = source.shape
    fours = (count - 1) // _LANES * _LANES
    for block in range(outer):
        for place in range(inner):
            total = source[block, 0, place]
            index = 1
            while index < fours:
                first = source[block, index, place] + source[block, index + 1, place]
                second = source[block, index + 2, place] + source[block, index + 3, place]
                total += first + second
                index += _LANES
            while index < count:
                total += source[block, index, place]
                index += 1
            result[block, place] = total / np.float32(count)
