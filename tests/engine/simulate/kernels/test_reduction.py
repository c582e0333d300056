"""Sums and maxima along an axis, of neighbours and of rows."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.simulate.kernels.elementwise_rows import ACCU_SHIFT, HALF, OUT_SHIFT, SCALE
from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.operations import FIRST_MAXIMUM
from engine.simulate.kernels.reduction import reduced as reduced_run
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, run


@numba.njit
def of_neighbours(x: np.ndarray, largest: int) -> int:
    return reduced_run(x, largest)


def test_neighbours_are_added_or_compared_from_the_least_of_16_bits_on() -> None:
    x = np.array([-32768, -5, -7], np.int16)
    assert (of_neighbours(x, 0), of_neighbours(x, 1), of_neighbours(x[:1], 1)) == (-32780, -5, -32768)


def reduced(x: np.ndarray, kind: type, largest: int, **row: int) -> list[int]:
    """Along the middle axis of three."""
    program = Assembler()
    feeds = fed(program, x)
    outer, length, inner = x.shape
    y = program.tensor((outer, 1, inner), kind)
    params = np.zeros(8, np.int64)
    params[[ACCU_SHIFT, SCALE, HALF, OUT_SHIFT]] = [
        row.get(name, least) for name, least in (("shift", 0), ("scale", 1), ("half", 0), ("out", 0))
    ]
    fields = {
        "in_h": length,
        "in_c": inner,
        "largest": largest,
        "low": -100,
        "high": 100,
        "params": program.address(params),
    }
    program.emit(InstructionKind.REDUCE, {"x": feeds[0][0], "y": y}, units=outer, scratch=4 * inner, **fields)
    return [int(value) for value in run(program, feeds, y).ravel()]


@pytest.mark.parametrize("kind", [np.int8, np.int16])
@pytest.mark.parametrize("inner", [1, 2])
def test_rows_and_neighbours(kind: type, inner: int) -> None:
    x = np.array([[-5, -7, -6], [3, 9, -128]], kind).reshape(2, 3, 1).repeat(inner, axis=2)
    assert reduced(x, kind, 1) == [value for value in (-5, 9) for _ in range(inner)]
    assert reduced(x, np.int32, 0) == [value for value in (-18, -116) for _ in range(inner)]
    scaling = {"shift": 1, "scale": 3, "half": 2, "out": 2}
    expected = [max((total * 3 + 2) >> 2, -100) for total in (-9, -58)]
    assert reduced(x, np.int8, 0, **scaling) == [value for value in expected for _ in range(inner)]


def test_sums_saturate_to_16_bits_before_they_are_multiplied() -> None:
    x = np.full((1, 300, 1), 127, np.int8)
    assert reduced(x, np.int16, 0, out=9) == [32767 >> 9]
    assert reduced(-x, np.int16, 0, out=9) == [-32768 >> 9]


@pytest.mark.parametrize("inner", [2, 5, 16, 31, 32, 40])
@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_short_rows_are_added_several_at_once(inner: int, length: int) -> None:
    x = np.random.default_rng(inner).integers(-128, 128, (3, length, inner)).astype(np.int8)
    assert reduced(x, np.int32, 0) == x.sum(axis=1, dtype=np.int32).ravel().tolist()
    assert reduced(x, np.int8, 1) == x.max(axis=1).ravel().tolist()


@pytest.mark.parametrize("kind", [np.int8, np.int16])
@pytest.mark.parametrize("length", [1, 2, 31, 64, 200, 600])
def test_the_position_of_the_first_maximum_wraps_in_8_bits(kind: type, length: int) -> None:
    least = np.iinfo(kind).min
    x = np.full((4, length, 1), least, kind)
    x[1, -1] = np.iinfo(kind).max
    x[2, [length // 2, -1]] = 7
    x[3] = np.random.default_rng(length).integers(least, least + 5, (length, 1)).astype(kind)
    assert reduced(x, np.int8, FIRST_MAXIMUM) == x.argmax(axis=1).astype(np.int8).ravel().tolist()
