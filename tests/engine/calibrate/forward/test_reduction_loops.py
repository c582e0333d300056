"""Compiled reductions: the order of their sums."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate.forward.reduction_loops import mean_of_middle, softmax_rows


def softmax(source: np.ndarray) -> np.ndarray:
    result = np.empty_like(source)
    softmax_rows(source, result)
    return result


@pytest.mark.parametrize("count", [1, 3, 4, 16, 65])
def test_softmax_is_within_a_few_units_of_the_exact_one(count: int) -> None:
    source = np.random.default_rng(count).normal(scale=5, size=(50, count)).astype(np.float32)
    wide = np.exp(source.astype(np.float64) - source.max(axis=1, keepdims=True))
    np.testing.assert_allclose(softmax(source), wide / wide.sum(axis=1, keepdims=True), rtol=5e-6)


def test_softmax_adds_the_first_and_third_of_four_sums() -> None:
    """1 + 1e-8 is 1 in float32: which numbers meet first decides whether the small ones count."""
    small = np.log(np.float32(4e-8))
    tail_last = softmax(np.asarray([[0, small, small, small, small]], np.float32))[0, 0]
    assert tail_last == np.float32(1) / np.float32(np.float32(1) + np.float32(8e-8))
    assert softmax(np.asarray([[small, 0, small, 0]], np.float32))[0, 1] == np.float32(0.5)


def test_softmax_of_masked_and_undefined_rows() -> None:
    rows = np.asarray([[0, -np.inf, 0, -np.inf], [-np.inf] * 4, [0, np.nan, 1, 2]], np.float32)
    found = softmax(rows)
    np.testing.assert_allclose(found[0], [0.5, 0, 0.5, 0], atol=1e-30)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[2]).any()


def test_a_mean_takes_four_numbers_at_a_time() -> None:
    source = np.random.default_rng(5).normal(size=(2, 11, 6)).astype(np.float32)
    result = np.empty((2, 6), np.float32)
    mean_of_middle(source, result)
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
    mean_of_middle(source, result)
    np.testing.assert_array_equal(result[0], source[0].mean(axis=0))
