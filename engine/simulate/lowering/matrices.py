"""What products of matrices take, by which a lowering chooses between ways to feed them, and how weights lie for them.

Cycles of one position (a row of an operand), measured on Emerald Rapids: a register of 16 rows takes 16 to be
multiplied with one of weights and 8 to be loaded meanwhile, a row that lies in two lines of the cache 3 more, and a
register of weights 21 that comes from the second cache.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.native.registers import LANES
from engine.simulate.kernels.tiles import DEPTH, MOST_HIGH, MOST_WIDE, ROW_BYTES, SIDE

LOADED, CROSSED, WEIGHTS = 0.5, 3.0, 1.3
"""Cycles to load a row, one more that lies in two lines, and a row of weights for one register of positions."""
COPIED = 10
"""Cycles to gather up to a line of the cache."""
FINISHED = 5
"""Cycles to requantise and store a vector."""


def in_place(pieces: int, size: int, channels: int, crossing: float, rows: int, item: int = 1) -> float:
    """Cycles for windows of ``pieces`` of ``size`` bytes that are read where they lie, ``rows`` of them together.

    Args:
        pieces: of a window.
        size: of a piece, bytes.
        channels: of the results.
        crossing: share of positions that do not begin with a line of the cache.
        rows: of a unit of work; a register holds :data:`SIDE`.
        item: bytes of an element; those of int16 meet weights twice.
    """
    vectors = item * math.ceil(channels / LANES)
    high = min(MOST_HIGH, math.ceil(rows / SIDE) * SIDE) // SIDE
    loads = (LOADED + CROSSED * crossing) * math.ceil(vectors / MOST_WIDE) + WEIGHTS * vectors / high
    return pieces * math.ceil(size / ROW_BYTES) * max(vectors, loads)


def gathered(pieces: int, size: int, channels: int, item: int = 1) -> float:
    """The same for windows that are gathered, one behind the other."""
    copied = pieces * math.ceil(size / ROW_BYTES) * COPIED
    return copied + in_place(1, pieces * size, channels, 0.0, MOST_HIGH, item)


def crossing(*distances: int) -> float:
    """The share of places that do not begin with a line of the cache, where they are so many bytes apart."""
    return 1 - math.gcd(ROW_BYTES, *distances) / ROW_BYTES


def finished(channels: int) -> float:
    """Cycles to requantise and store results of so many channels."""
    return FINISHED * math.ceil(channels / LANES)


def halves(weights: NDArray[np.int16]) -> NDArray[np.int8]:
    """Weights (steps, vectors, lanes, 2) of int16, int8 themselves, for their lower bytes beside those for their upper.

    Returns:
        (steps, 2 * vectors, lanes, 4), int8: each vector twice, with zeros in the places of the others.
    """
    lower = weights.astype(np.uint16) & 0xFF
    both = np.stack([lower, lower << 8], axis=2)
    return both.reshape(len(weights), -1, *weights.shape[2:]).view(np.int8)


def in_registers(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """A panel of weights (steps, vectors, lanes, 4) in the order in which registers of matrices are loaded with them.

    The first two vectors come before the next two, and of each two :data:`DEPTH` steps of the one, then of the other.
    """
    steps, vectors = weights.shape[:2]
    registers = weights.reshape(steps // DEPTH, DEPTH, vectors, -1).swapaxes(1, 2)
    pairs = [registers[:, first : first + MOST_WIDE] for first in range(0, vectors, MOST_WIDE)]
    return np.concatenate([pair.ravel() for pair in pairs])
