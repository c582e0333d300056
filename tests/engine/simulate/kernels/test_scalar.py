"""Scalar operations in 32 bits, and what threads share."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from engine.simulate.kernels.scalar import (
    atomic_load,
    atomic_store,
    divided,
    exchange_if,
    shifted_left,
    shifted_right,
)


@numba.njit
def shifts(value: int, bits: int) -> tuple[int, int]:
    return shifted_left(np.int32(value), np.int32(bits)), shifted_right(np.int32(value), np.int32(bits))


@numba.njit
def parts(value: int, divisor: int) -> tuple[int, int]:
    return divided(value, divisor)


@numba.njit
def share(address: int) -> tuple[int, bool, bool, int]:
    atomic_store(address, 5)
    first = exchange_if(address, 4, 7)
    second = exchange_if(address, 5, 7)
    return atomic_load(address), first, second, atomic_load(address + 8)


def test_shifts_wrap_and_floor_in_32_bits() -> None:
    assert shifts(3, 30) == (-(1 << 30), 0)
    assert shifts(-3, 1) == (-6, -2)
    assert shifts(-1, 31) == (-(1 << 31), -1)


@pytest.mark.parametrize("value", [0, 1, 5, 11, 12, 1 << 40])
@pytest.mark.parametrize("divisor", [1, 5, 12])
def test_what_is_not_negative_is_divided(value: int, divisor: int) -> None:
    assert parts(value, divisor) == divmod(value, divisor)


def test_a_word_changes_where_it_is_what_was_expected() -> None:
    words = np.array([0, 9], np.int64)
    assert share(words.ctypes.data) == (7, False, True, 9)
    assert words.tolist() == [7, 9]
