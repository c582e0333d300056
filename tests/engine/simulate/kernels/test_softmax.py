"""The kernel of Softmax: its largest number, and rows side by side."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from engine.floats.softmax.definition import softmax_rows
from engine.native.registers import LANES
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.softmax import ROWS, largest_of
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run


@numba.njit
def largest(address: int, count: int) -> Any:
    return largest_of(address, count)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 40])
def test_the_largest_number(count: int) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    assert largest(x.ctypes.data, count) == x.max()
    x[count // 2] = np.nan
    assert largest(x.ctypes.data, count) == np.nanmax(x, initial=-np.inf)


@pytest.mark.parametrize("rows", [1, ROWS, 2 * ROWS + 1])
@pytest.mark.parametrize("length", [1, 3, LANES - 1, LANES, 2 * LANES + 5, 64])
def test_rows_in_groups_and_by_themselves(rows: int, length: int) -> None:
    program = Assembler()
    x = np.random.default_rng(rows * length).standard_normal((rows, length)).astype(np.float32) * 9
    feeds = fed(program, x)
    y = program.tensor(x.shape, np.float32)
    program.emit(InstructionKind.SOFTMAX, {"x": feeds[0][0], "y": y}, units=rows, count=length)
    np.testing.assert_array_equal(run(program, feeds, y), softmax_rows(x))
