"""The convolution's tile of dot products alone, over and over: what multiplications and additions this CPU reaches."""

from __future__ import annotations

from collections.abc import Callable

from engine.jit import compiled, entry
from engine.native.registers import LANES, LEVEL
from engine.simulate.kernels.convolution import QUADS, dots_of_pairs, dots_of_quads
from engine.simulate.kernels.matrices import begin_matrices, end_matrices
from engine.simulate.kernels.memory import int64_at
from engine.simulate.kernels.tiles import (
    ACCUMULATOR_BYTES,
    MATRICES,
    MAX_VECTORS,
    MOST_HIGH,
    MOST_WIDE,
    PAIR,
    QUAD,
    QUAD_ROWS,
    ROWS,
)

TILE_ROWS, VECTORS = (QUAD_ROWS if QUADS else ROWS)[MAX_VECTORS - 1], MAX_VECTORS
if MATRICES:
    TILE_ROWS, VECTORS = MOST_HIGH, MOST_WIDE
STEPS = 128 if MATRICES else 64
"""Steps whose operands stay in the first cache: 16 kB of rows and as much of weights, or 16 kB of weights at most."""
OPERATIONS_PER_STEP = 2 * TILE_ROWS * VECTORS * LANES * (QUAD if QUADS else PAIR)
"""Two per multiply-accumulate."""


def operand_bytes(steps: int) -> int:
    """Memory that :func:`dot_tiles` works in."""
    return ACCUMULATOR_BYTES + steps * 4 * (TILE_ROWS + VECTORS * LANES) + 8


def _of_level(level: str) -> Callable[[int, int, int], None]:
    """:func:`dot_tiles`, whose code on disk is that of ``level``: its closure is part of the key."""

    def dot_tiles(memory: int, steps: int, calls: int) -> None:
        _ = level
        repeat(memory, steps, calls)

    return entry(dot_tiles)


@compiled
def repeat(memory: int, steps: int, calls: int) -> None:
    """The widest tile, ``calls`` times, on what lies in :func:`operand_bytes` bytes at ``memory``, a line of the cache.

    ``steps`` are those of :func:`~engine.simulate.kernels.tiles.steps_of`.
    """
    rows, weights = memory + ACCUMULATOR_BYTES, memory + ACCUMULATOR_BYTES + steps * 4 * TILE_ROWS
    if MATRICES:
        begin_matrices()
    int64_at(weights + steps * 4 * VECTORS * LANES, 1)[0] = 0  # no step of a chain stands by itself
    for _ in range(calls):
        if QUADS:
            dots_of_quads(TILE_ROWS, VECTORS, rows, steps * 4, 1, 0, weights, steps, memory)
        else:
            dots_of_pairs(TILE_ROWS, VECTORS, rows, steps * 4, 1, 0, weights, steps, memory)
    if MATRICES:
        end_matrices()


dot_tiles = _of_level(LEVEL.name if LEVEL else "")
""":func:`repeat`, for Python."""
