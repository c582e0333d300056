"""Borders, copies between layouts, tables."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.kernels.movement import reach
from engine.simulate.lowering.movement import strided_copy
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import fed, ramp, run

SHAPES = [
    (3, 40),
    (40, 3),
    (2, 40),
    (40, 2),
    (4, 33),
    (33, 4),
    (17, 19),
    (16, 16),
    (33, 5),
    (1, 7),
]


@numba.njit
def spanned(dims: np.ndarray, strides: int) -> int:
    return reach(dims, strides)


def test_two_dimensions_span_up_to_their_last_element() -> None:
    dims = np.array([9, 9, 3, 4, 0, 0, 10, 2, 0, 0, 1, 5])
    assert [spanned(dims, strides) for strides in (4, 8)] == [27, 18]


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_a_border_surrounds_the_image(kind: type) -> None:
    program = Assembler()
    x = ramp(1, 2, 2, 3, dtype=kind)
    feeds = fed(program, x)
    y = program.tensor((1, 5, 5, 3), kind)
    size = {"in_h": 2, "in_w": 2, "in_c": 3, "out_h": 5, "out_w": 5}
    program.emit(InstructionKind.PAD, {"x": feeds[0][0], "y": y}, units=5, top=1, left=2, value=-9, **size)
    found = run(program, feeds, y)
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (1, 2), (2, 1), (0, 0)), constant_values=-9))


@pytest.mark.parametrize(("top", "left", "below", "right"), [(1, 2, 2, 1), (0, 0, 1, 3), (2, 0, 0, 0), (0, 1, 0, 0)])
def test_the_border_of_an_image_that_others_write(top: int, left: int, below: int, right: int) -> None:
    program, shape = Assembler(), (1, top + 4 + below, left + 5 + right, 3)
    feeds = fed(program, np.full(shape, 44, np.int8))
    y = feeds[0][0]
    size = {"in_h": 4, "in_w": 5, "in_c": 3, "out_h": shape[1], "out_w": shape[2]}
    program.emit(InstructionKind.PAD, {"y": y}, units=shape[1], top=top, left=left, value=-9, hollow=1, **size)
    found = run(program, feeds, y)
    inside = np.full((1, 4, 5, 3), 44, np.int8)
    borders = ((0, 0), (top, below), (left, right), (0, 0))
    np.testing.assert_array_equal(found, np.pad(inside, borders, constant_values=-9))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(3, 40), (40, 3), (2, 40), (40, 2), (4, 33), (33, 4), (3, 7), (7, 3), (17, 19), (16, 16), (33, 5), (1, 7)],
)
def test_planes_are_turned_block_by_block_and_at_their_edges(rows: int, columns: int, kind: type) -> None:
    x = ramp(2, rows, columns, dtype=kind, first=-99)
    for swapped in (False, True):
        program = Assembler()
        feeds = fed(program, x)
        y = program.tensor((2, columns, rows), kind)
        dims, x_strides, y_strides = (
            (1, 2, rows, columns),
            (0, rows * columns, columns, 1),
            (0, rows * columns, 1, rows),
        )
        order = [0, 1, 3, 2] if swapped else [0, 1, 2, 3]
        strided_copy(feeds[0][0], y, *([part[k] for k in order] for part in (dims, x_strides, y_strides)), program)
        np.testing.assert_array_equal(run(program, feeds, y), x.transpose(0, 2, 1))


@pytest.mark.parametrize("size", [*range(1, 36), 63, 64, 65, 130])
def test_runs_of_every_length_leave_what_is_between_them(size: int) -> None:
    program, pitch = Assembler(), size + 3
    x = ramp(7, size, first=size)
    feeds = fed(program, x)
    y = program.tensor((7, pitch), np.int8)
    empty = program.constant_operand(np.full(7 * pitch, -1, np.int8))
    strided_copy(empty, y, (1, 1, 1, 7 * pitch), (0, 0, 0, 1), (0, 0, 0, 1), program)
    strided_copy(feeds[0][0], y, (1, 1, 7, size), (0, 0, size, 1), (0, 0, pitch, 1), program)
    found = run(program, feeds, y)
    np.testing.assert_array_equal(found[:, :size], x)
    assert (found[:, size:] == -1).all()


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32])
def test_any_strides_and_starts(kind: type) -> None:
    program = Assembler()
    x = ramp(64, dtype=kind)
    feeds = fed(program, x)
    y = program.tensor((40,), kind)
    empty = program.constant_operand(np.full(40, -1, kind))
    strided_copy(empty, y, (1, 1, 1, 40), (0, 0, 0, 1), (0, 0, 0, 1), program)
    strided_copy(feeds[0][0], y, (1, 2, 3, 4), (0, 30, 2, 7), (0, 20, 6, 2), program, x_start=3, y_start=1)
    expected = np.full(40, -1, kind)
    for index in np.ndindex(2, 3, 4):
        expected[1 + np.dot(index, (20, 6, 2))] = x[3 + np.dot(index, (30, 2, 7))]
    np.testing.assert_array_equal(run(program, feeds, y), expected)


@pytest.mark.parametrize("x_kind", [np.int8, np.int16])
@pytest.mark.parametrize("y_kind", [np.int8, np.int16])
@pytest.mark.parametrize("period", [1, 2])
def test_tables_of_every_width(x_kind: type, y_kind: type, period: int) -> None:
    limits = np.iinfo(x_kind)
    x = np.resize(np.array([limits.min, -1, 0, limits.max, 5, 6], x_kind), 150)
    tables = (np.arange(period * (limits.max - limits.min + 1)) * 3 % 251 - 125).astype(y_kind).reshape(period, -1)
    program = Assembler()
    feeds = fed(program, x)
    y = program.tensor(x.shape, y_kind)
    fields = {"in_c": x.size, "period": period, "count": 100, "table": program.address(tables)}
    program.emit(InstructionKind.TABLE, {"x": feeds[0][0], "y": y}, units=2, **fields)
    expected = tables[np.arange(150) % period, x.astype(int) - limits.min]
    np.testing.assert_array_equal(run(program, feeds, y), expected)
