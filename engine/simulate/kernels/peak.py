"""The convolution's tile of dot products alone, over and over: what multiplications and additions this CPU reaches."""

from __future__ import annotations

from engine.jit import entry
from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.convolution import dots_of_pairs, dots_of_quads
from engine.simulate.kernels.matrices import begin_matrices, end_matrices, products
from engine.simulate.kernels.tiles import ACCUMULATOR_BYTES, MATRICES, MAX_VECTORS, MOST_HIGH, PAIR, QUAD, ROWS

TILE_ROWS = MOST_HIGH if MATRICES else ROWS[MAX_VECTORS - 1]
QUADS = REGISTERS.quads
OPERATIONS_PER_STEP = 2 * TILE_ROWS * MAX_VECTORS * LANES * (QUAD if QUADS else PAIR)
"""Two per multiply-accumulate."""


def operand_bytes(steps: int) -> int:
    """Memory that :func:`dot_tiles` works in."""
    return ACCUMULATOR_BYTES + steps * 4 * (TILE_ROWS + MAX_VECTORS * LANES)


@entry
def dot_tiles(memory: int, steps: int, calls: int) -> None:
    """The widest tile, ``calls`` times, on what lies in :func:`operand_bytes` bytes at ``memory``.

    ``steps`` are a multiple of :data:`~engine.simulate.kernels.tiles.STEPS_TOGETHER`.
    """
    rows, weights = memory + ACCUMULATOR_BYTES, memory + ACCUMULATOR_BYTES + steps * 4 * TILE_ROWS
    if MATRICES:
        begin_matrices()
    for _ in range(calls):
        if MATRICES:
            products(TILE_ROWS, MAX_VECTORS, rows, steps * 4, 1, 0, weights, steps, memory)
        elif QUADS:
            dots_of_quads(TILE_ROWS, MAX_VECTORS, rows, steps * 4, 1, 0, weights, steps, memory)
        else:
            dots_of_pairs(TILE_ROWS, MAX_VECTORS, rows, steps * 4, 1, 0, weights, steps, memory)
    if MATRICES:
        end_matrices()
