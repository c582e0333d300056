"""Compiled means: the order of their sums."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats import reduction_loops
from engine.floats.compiled import MEAN_OF_MIDDLE


def test_a_mean_takes_four_numbers_at_a_time() -> None:
    source = np.random.default_rng(5).normal(size=(2, 11, 6)).astype(np.float32)
    result = np.empty((2, 6), np.float32)
    MEAN_OF_MIDDLE(source, result)
    total = source[:, 0].copy()
    for first in (1, 5):
        pairs = (source[:, first] + source[:, first + 1]) + (source[:, first + 2] + source[:, first + 3])
        total = total + pairs
    for rest in (9, 10):
        total = total + source[:, rest]
    np.testing.assert_array_equal(result, total / np.float32(11))


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_mean_of_few_numbers(count: int) -> None:
    source = np.arange(count * 3, dtype=np.float32).reshape(1, count, 3)
    result = np.empty((1, 3), np.float32)
    MEAN_OF_MIDDLE(source, result)
    np.testing.assert_array_equal(result[0], source[0].mean(axis=0))


def test_the_loop_is_of_this_module() -> None:
    assert MEAN_OF_MIDDLE.function is reduction_loops.mean_of_middle
