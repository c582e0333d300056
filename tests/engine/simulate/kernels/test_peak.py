"""The loop that measures dot products computes them."""

from __future__ import annotations

import numpy as np

from engine.native.registers import LANES
from engine.simulate.kernels.peak import OPERATIONS_PER_STEP, QUADS, TILE_ROWS, VECTORS, dot_tiles, operand_bytes
from engine.simulate.kernels.tiles import STEPS_TOGETHER


def test_every_step_multiplies_and_adds_what_is_counted() -> None:
    steps = 6 * STEPS_TOGETHER
    memory = np.zeros(operand_bytes(steps) + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]
    if QUADS:
        memory[:] = 1
    else:
        memory[: len(memory) // 2 * 2].view(np.int16)[:] = 1
    dot_tiles(memory.ctypes.data, steps, 2)
    sums = memory[: TILE_ROWS * VECTORS * LANES * 4].view(np.int32)
    np.testing.assert_array_equal(sums, sums[0])
    assert 2 * sums.sum() == OPERATIONS_PER_STEP * steps
