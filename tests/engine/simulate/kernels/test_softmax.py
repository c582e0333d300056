"""The kernel's multiply-adds, with and without the CPU's own instruction; its largest number."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate import softmax as definition
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.softmax import ROWS, largest_of, make_fused
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run

fused_by_hand = make_fused(native=False)


@numba.njit
def all_fused(a: Any, b: Any, c: Any, out: Any) -> None:
    for k in range(len(out)):
        out[k] = fused_by_hand(a[k], b[k], c[k])


@numba.njit
def largest(address: int, count: int) -> Any:
    return largest_of(address, count)


def test_multiply_adds_without_an_instruction_round_once() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(5000).astype(np.float32) for _ in range(2))
    c = (np.exp2(rng.integers(-40, 40, 5000)) * rng.choice([-1, 1], 5000)).astype(np.float32)
    out = np.empty_like(a)
    all_fused(a, b, c, out)
    np.testing.assert_array_equal(out, definition.fused(a, b, c))


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
    np.testing.assert_array_equal(run(program, feeds, y), definition.softmax_rows(x))
