"""Compiled Softmax: the bits of its definition, also of numbers that are less than the normal ones."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats.compiled import SOFTMAX_ROWS
from engine.floats.softmax import loops


def softmax(source: np.ndarray) -> np.ndarray:
    result = np.empty_like(source)
    SOFTMAX_ROWS(source, result)
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


def defined(row: np.ndarray) -> np.ndarray:
    """Softmax of one row, number by number: the definition of the exponential and of the sums."""
    factors = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1]
    powers = []
    for x in np.maximum(row - row.max(), np.float32(-88.3762626647949)):
        whole = np.floor(x * np.float32(1.44269504088896341) + np.float32(0.5))
        rest = x - whole * np.float32(0.693359375) - whole * np.float32(-2.12194440e-4)
        value = np.float32(factors[0])
        for factor in factors[1:]:
            value = value * rest + np.float32(factor)
        value = value * (rest * rest) + rest + np.float32(1)
        powers.append(value * np.float32(2.0 ** int(whole) if whole > -127 else 0.0))
    sums = [np.float32(0)] * 4
    for index, power in enumerate(powers[: len(row) // 4 * 4]):
        sums[index % 4] += power
    left = np.float32(0)
    for power in powers[len(row) // 4 * 4 :]:
        left += power
    return np.asarray(powers) * (np.float32(1) / ((sums[0] + sums[2]) + (sums[1] + sums[3]) + left))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e30])
@pytest.mark.parametrize("count", [1, 4, 7, 16, 33, 197])
def test_softmax_has_the_bits_of_its_definition(count: int, scale: float) -> None:
    """Differences of 88 give numbers that float32 has no normal ones for."""
    source = (np.random.default_rng(count).normal(size=(4, count)) * scale).astype(np.float32)
    source[1] = np.linspace(-88.5, 0, count, dtype=np.float32)
    source[2] = np.copysign(np.float32(0), source[2])
    source[3, -1] = -np.inf if count > 1 else 1.0
    expected = np.stack([defined(row) for row in source])
    np.testing.assert_array_equal(softmax(source).view(np.int32), expected.view(np.int32))


def test_softmax_of_infinite_and_undefined_rows_is_undefined() -> None:
    rows = np.ones((3, 19), np.float32)
    rows[0, 18], rows[1, 5], rows[2, 3] = np.inf, np.copysign(np.float32(np.nan), -1), np.nan
    assert np.isnan(softmax(rows)).all()


def test_softmax_of_masked_and_undefined_rows() -> None:
    rows = np.asarray([[0, -np.inf, 0, -np.inf], [-np.inf] * 4, [0, np.nan, 1, 2]], np.float32)
    found = softmax(rows)
    np.testing.assert_allclose(found[0], [0.5, 0, 0.5, 0], atol=1e-30)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[2]).any()


def test_the_loop_is_of_this_module() -> None:
    assert SOFTMAX_ROWS.function is loops.softmax_rows
