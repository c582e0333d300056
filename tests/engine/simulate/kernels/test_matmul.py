"""Products of matrices whose sizes leave rests in every direction."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.matmul import negate
from engine.simulate.kernels.tiles import PAIR, QUAD
from engine.simulate.lowering.matmul import lower_matmul
from tests.engine.simulate.machine import compute


@numba.njit
def negated(values: np.ndarray) -> None:
    negate(values)


def test_every_sign_changes() -> None:
    values = np.array([0, 1, -7, 2**31 - 1], np.int32)
    negated(values)
    assert values.tolist() == [0, -1, 7, 1 - 2**31]


@pytest.mark.parametrize("inside", [1, QUAD - 1, QUAD, QUAD + 1])
@pytest.mark.parametrize("columns", [1, LANES, 5 * LANES + 3])
@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_rests_of_steps_and_lanes(inside: int, columns: int, kind: type) -> None:
    assert QUAD == 2 * PAIR
    rng = np.random.default_rng(inside * columns)
    a, b = (rng.integers(-128, 128, shape).astype(kind) for shape in ((51, inside), (inside, columns)))
    found = compute(lower_matmul, "HzSQuantizedMatmul", [a, b], 2, output_bit=32)
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))
    compute(lower_matmul, "HzSQuantizedMatmul", [a, b], 2, right_shift=[1], scale=[-3], out_shift=[4])


def test_extreme_int16_products_wrap() -> None:
    a = np.full((1, 3), -32768, np.int16)
    found = compute(lower_matmul, "HzSQuantizedMatmul", [a, a.T.copy()], 2, output_bit=32)
    assert found.item() == 3 * 2**30 - 2**32
