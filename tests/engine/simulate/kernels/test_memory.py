"""Typed views of memory, copies, and changes of width."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.simulate.kernels.memory import copy_bytes, float32_at, int32_at, store, widen


@numba.njit
def widened(address: int, item_bytes: int, stride: int, target: int, size: int) -> None:
    widen(address, item_bytes, stride, int32_at(target, size))


@numba.njit
def stored(values: int, size: int, address: int, item_bytes: int) -> None:
    store(int32_at(values, size), address, item_bytes)


@numba.njit
def copied(source: int, target: int, size: int) -> float:
    copy_bytes(source, target, size)
    return float32_at(target, 1)[0]


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32])
@pytest.mark.parametrize(("stride", "expected"), [(1, [-3, 1, 2]), (0, [-3, -3, -3]), (2, [-3, 2, -5])])
def test_every_so_many_elements_are_widened(kind: type, stride: int, expected: list[int]) -> None:
    source, target = np.array([-3, 1, 2, 4, -5], kind), np.zeros(4, np.int32)
    widened(source.ctypes.data, source.itemsize, stride, target.ctypes.data, 3)
    assert target.tolist() == [*expected, 0]


@pytest.mark.parametrize("kind", [np.int8, np.int16])
def test_results_are_stored_in_their_width(kind: type) -> None:
    values, target = np.array([-128, 5, 127], np.int32), np.full(4, 9, kind)
    stored(values.ctypes.data, 3, target.ctypes.data, target.itemsize)
    assert target.tolist() == [-128, 5, 127, 9]


def test_bytes_are_copied_and_no_more() -> None:
    source, target = np.array([1.5, 2.5], np.float32), np.array([0, 7], np.float32)
    assert copied(source.ctypes.data, target.ctypes.data, 4) == 1.5
    assert target.tolist() == [1.5, 7]
