"""Compiled Softmax: the bits of its definition, also of powers that are less than the normal numbers."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest

from engine.floats.compiled import SOFTMAX_ROWS
from engine.floats.fused import fused
from engine.floats.softmax import loops

fused_by_hand = loops.make_fused(native=False)


@numba.njit
def all_fused(a: Any, b: Any, c: Any, out: Any) -> None:
    for k in range(len(out)):
        out[k] = fused_by_hand(a[k], b[k], c[k])


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
    """Softmax of one row, number by number in Python's float64: the definition of the exponential and of the sums."""
    coefficients = ["0x1.694p-10", "0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0"]

    def fused(factor: np.float32, other: float, summand: float) -> np.float32:
        return np.float32(float(factor) * float(np.float32(other)) + float(np.float32(summand)))

    powers = []
    for x in np.maximum(row - row.max(), np.float32(-88.3762626647949)):
        whole = fused(x, 1.44269504088896341, 12582912.0) - np.float32(12582912.0)
        rest = fused(whole, -1.42860677e-6, float(fused(whole, -6.93145752e-1, float(x))))
        value = np.float32(float.fromhex(coefficients[0]))
        for coefficient in coefficients[1:]:
            value = fused(value, float(rest), float.fromhex(coefficient))
        powers.append(np.float32(math.ldexp(float(value), int(whole))))
    sums = [np.float32(0)] * 4
    for index, power in enumerate(powers[: len(row) // 4 * 4]):
        sums[index % 4] += power
    total = (sums[0] + sums[2]) + (sums[1] + sums[3])
    for power in powers[len(row) // 4 * 4 :]:
        total += power
    return np.asarray(powers) * (np.float32(1) / total)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e30])
@pytest.mark.parametrize("count", [1, 4, 7, 16, 33, 197])
def test_softmax_has_the_bits_of_its_definition(count: int, scale: float) -> None:
    """Differences of 88 give powers of two that float32 has no normal numbers for."""
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


def test_multiply_adds_without_an_instruction_round_once() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(5000).astype(np.float32) for _ in range(2))
    c = (np.exp2(rng.integers(-40, 40, 5000)) * rng.choice([-1, 1], 5000)).astype(np.float32)
    out = np.empty_like(a)
    all_fused(a, b, c, out)
    np.testing.assert_array_equal(out, fused(a, b, c))


def test_the_loop_is_of_this_module() -> None:
    assert SOFTMAX_ROWS.function is loops.softmax_rows
