"""Products of matrices, in registers where the CPU has them, equal to the definition."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.matrices import begin_matrices, end_matrices, products, register_place
from engine.simulate.kernels.tiles import DEPTH, MATRICES, MOST_HIGH, SIDE
from engine.simulate.lowering.matrices import in_registers
from engine.simulate.program import aligned_zeros
from tests.cpu import needs_cpu

needs_matrices = needs_cpu(MATRICES, "products of matrices are those of AMX")


@numba.njit
def sums(rows: int, vectors: int, a: int, pitch: int, pieces: int, between: int, w: int, steps: int, out: int) -> int:
    """:func:`products`, for Python."""
    begin_matrices()
    done: int = products(rows, vectors, a, pitch, pieces, between, w, steps, out)
    end_matrices()
    return done


@numba.njit
def place(vector: int, step: int, vectors: int, steps: int) -> int:
    """:func:`register_place`, for Python."""
    found: int = register_place(vector, step, vectors, steps)
    return found


@needs_matrices
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, SIDE, SIDE + 1, MOST_HIGH, MOST_HIGH + 5])
def test_sums_are_exact_and_wrap(rows: int, vectors: int) -> None:
    """Rows overlap, as windows do, and pieces lie above each other; extremes come too."""
    rng, steps, pitch, between = np.random.default_rng(rows), 2 * DEPTH, 12, 3000
    memory = aligned_zeros(2 * between + 4096).view(np.int8)
    memory[:] = rng.choice(np.array([-128, 127, 3, 0], np.int8), len(memory))
    w = rng.choice(np.array([-128, 127, -1], np.int8), (2 * steps, vectors, LANES, 4))
    packed = aligned_zeros(w.size).view(np.int8)
    packed[:] = in_registers(w)
    out = np.full(((MOST_HIGH + 1), vectors * LANES), 77, np.int32)
    done = sums(rows, vectors, memory.ctypes.data, pitch, 2, between, packed.ctypes.data, steps, out.ctypes.data)
    assert done == min(rows, MOST_HIGH)
    windows = [[memory[p * between + r * pitch :][: 4 * steps] for p in range(2)] for r in range(done)]
    expected = np.array(windows, np.int64).reshape(done, -1) @ columns_of(w)
    np.testing.assert_array_equal(out[:done], expected)
    assert np.all(out[MOST_HIGH:] == 77)


def columns_of(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Weights (steps, vectors, lanes, 4) as (values, columns), int64."""
    return w.transpose(0, 3, 1, 2).reshape(4 * len(w), -1).astype(np.int64)


@needs_matrices
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_the_place_of_a_step_is_that_of_the_packed_weights(vectors: int) -> None:
    steps = 3 * DEPTH
    w = np.arange(steps * vectors * LANES * 4).astype(np.int8).reshape(steps, vectors, LANES, 4)
    packed = in_registers(w)
    for vector in range(vectors):
        for step in (0, 1, DEPTH - 1, DEPTH, steps - 1):
            at = place(vector, step, vectors, steps)
            np.testing.assert_array_equal(packed[at : at + LANES * 4], w[step, vector].ravel())
