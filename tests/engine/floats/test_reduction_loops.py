"""Compiled sums and products over the first axis: their order."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats import reduction_loops
from engine.floats.compiled import PRODUCTS_OF_COLUMNS, SUMS_OF_COLUMNS


@pytest.mark.parametrize("join", [np.add, np.multiply])
def test_columns_take_four_numbers_at_a_time_and_the_last_ones_one(join: np.ufunc) -> None:
    source = np.random.default_rng(5).normal(size=(11, 6)).astype(np.float32)
    result = np.empty(6, np.float32)
    (SUMS_OF_COLUMNS if join is np.add else PRODUCTS_OF_COLUMNS)(source, result)
    total = source[0].copy()
    for first in (1, 5):
        pairs = join(join(source[first], source[first + 1]), join(source[first + 2], source[first + 3]))
        total = join(total, pairs)
    for rest in (9, 10):
        total = join(total, source[rest])
    np.testing.assert_array_equal(result[:4], total[:4])
    one_by_one = source[0].copy()
    for row in source[1:]:
        one_by_one = join(one_by_one, row)
    np.testing.assert_array_equal(result[4:], one_by_one[4:])
    assert not np.array_equal(total, one_by_one)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6])
def test_a_sum_of_few_numbers(count: int) -> None:
    source = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    result = np.empty(3, np.float32)
    SUMS_OF_COLUMNS(source, result)
    np.testing.assert_array_equal(result, source.sum(axis=0))


def test_the_loops_are_of_this_module() -> None:
    assert SUMS_OF_COLUMNS.function is reduction_loops.sums_of_columns
    assert PRODUCTS_OF_COLUMNS.function is reduction_loops.products_of_columns
