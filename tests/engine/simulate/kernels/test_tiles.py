"""Tiles fit the registers, and working memory fits the tiles."""

from __future__ import annotations

from engine.native.registers import LANES, LEVELS, REGISTERS
from engine.simulate.kernels.tiles import (
    ACCUMULATOR_BYTES,
    FINISHED_ROWS,
    MAX_VECTORS,
    PAIR,
    PIXELS,
    QUAD,
    ROWS,
    STAGING_BYTES,
)

REGISTER_FILE = {16: 32, 8: 16, 4: 16}
"""Vector registers by lanes."""


def test_accumulators_weights_and_an_activation_fit_the_register_file() -> None:
    for level in LEVELS:
        for vectors, rows in enumerate(level.registers.rows, 1):
            assert rows * vectors + vectors + 1 <= REGISTER_FILE[level.registers.lanes] + 1, (level.name, vectors)


def test_working_memory_holds_the_largest_tile() -> None:
    assert (REGISTERS.rows, len(REGISTERS.rows)) == (ROWS, MAX_VECTORS)
    # Tiles of rows follow one another until all are there that are requantised together; the last may be whole.
    most = max((FINISHED_ROWS + rows - 1) * vectors for vectors, rows in enumerate(ROWS, 1))
    assert most * LANES * 4 <= ACCUMULATOR_BYTES
    assert (FINISHED_ROWS + PIXELS - 1) * LANES * 4 <= ACCUMULATOR_BYTES
    assert FINISHED_ROWS * LANES * 4 == STAGING_BYTES


def test_a_lane_has_room_for_its_products() -> None:
    assert PAIR * 16 == QUAD * 8 == 32
