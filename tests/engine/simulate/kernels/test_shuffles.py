"""Blocks of matrices transposed in registers, and tables of 256 bytes."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels.shuffles import (
    I8,
    I16,
    I32,
    look_up_bytes,
    make_interleave,
    make_separate,
    make_transpose,
    side,
)

blocks = {np.int8: I8, np.int16: I16, np.int32: I32}
transpose_16 = make_transpose(I16)
interleave_16_3, separate_16_3 = make_interleave(I16, 3), make_separate(I16, 3)


@numba.njit
def transposed(x: int, x_pitch: int, y: int, y_pitch: int) -> None:
    transpose_16(x, x_pitch, y, y_pitch)


@numba.njit
def interleaved(x: int, pitch: int, y: int) -> None:
    interleave_16_3(x, pitch, y)


@numba.njit
def separated(x: int, y: int, pitch: int) -> None:
    separate_16_3(x, y, pitch)


@numba.njit
def looked_up(x: int, table: int, y: int, size: int) -> int:
    return look_up_bytes(x, table, y, size)


@pytest.mark.parametrize(("kind", "size"), [(np.int8, 16), (np.int16, 8), (np.int32, 4)])
def test_a_row_of_a_block_is_128_bits(kind: type, size: int) -> None:
    assert side(blocks[kind]) == size


def test_rows_become_columns_between_their_pitches() -> None:
    x, y = np.arange(8 * 10, dtype=np.int16).reshape(8, 10), np.full((8, 9), -1, np.int16)
    transposed(x.ctypes.data, x.strides[0], y.ctypes.data, y.strides[0])
    np.testing.assert_array_equal(y[:, :8], x[:, :8].T)
    assert (y[:, 8] == -1).all()


def test_rows_become_triples_and_rows_again() -> None:
    x = np.arange(3 * 10, dtype=np.int16).reshape(3, 10)
    triples, rows = np.full((9, 3), -1, np.int16), np.full((3, 9), -1, np.int16)
    interleaved(x.ctypes.data, x.strides[0], triples.ctypes.data)
    np.testing.assert_array_equal(triples[:8], x[:, :8].T)
    separated(triples.ctypes.data, rows.ctypes.data, rows.strides[0])
    np.testing.assert_array_equal(rows[:, :8], x[:, :8])
    assert (triples[8] == -1).all()
    assert (rows[:, 8] == -1).all()


@pytest.mark.parametrize("size", [15, 16, 33, 64, 200, 256])
def test_registers_and_their_rest_are_looked_up(size: int) -> None:
    x = np.arange(-128, 128).astype(np.int8)[::-1].copy()
    table = (np.arange(256) * 7).astype(np.int8)
    y = np.zeros(256, np.int8)
    done = looked_up(x.ctypes.data, table.ctypes.data, y.ctypes.data, size)
    assert done == (size if LANES > 4 and size > 15 else 0)
    np.testing.assert_array_equal(y[:done], table[x[:done].astype(int) + 128])
    assert not y[done:].any()
