"""Softmax: ONNX's definition, one rounding per multiply-add, four sums side by side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

from engine.simulate.softmax import exponential, fused, normalised_axes, softmax_over, softmax_rows


@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 65])
def test_rows_sum_to_one_and_agree_with_float64(length: int) -> None:
    x = (np.random.default_rng(0).standard_normal((40, length)) * 8).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(softmax_rows(x), powers / powers.sum(axis=1, keepdims=True), rtol=4e-6, atol=1e-37)


def test_sums_run_in_four_and_what_is_left_follows() -> None:
    x = np.log(np.array([[1, 2**-24, 2**-24, 2**-24, 2**-24, 2**-24]], np.float32)).astype(np.float32)
    powers = exponential(x)[0]
    total = np.float32(0)
    for value in ((powers[0] + powers[2]) + (powers[1] + powers[3]), powers[4], powers[5]):
        total += value
    np.testing.assert_array_equal(softmax_rows(x)[0], powers * (np.float32(1) / total))


def test_what_is_far_below_the_largest_is_nothing() -> None:
    assert softmax_rows(np.array([[0, -87, -88, -1e9, -np.inf]], np.float32))[0, 2:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("row", [[1, np.nan], [np.inf, 0], [-np.inf, -np.inf]])
def test_rows_without_a_largest_number_are_undefined(row: list[float]) -> None:
    assert np.isnan(softmax_rows(np.array([row], np.float32))).all()


def test_a_fused_multiply_add_rounds_once() -> None:
    """Among them sums that lie next to the middle of two float32, where rounding twice goes wrong."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(2000).astype(np.float32) for _ in range(2))
    c = (np.exp2(rng.integers(-40, 40, 2000)) * rng.choice([-1, 1], 2000)).astype(np.float32)
    a[:500], b[:500] = 1 + 2.0**-12, 1 + 2.0**-12
    for x, y, z, found in zip(a, b, c, fused(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
        distance = abs(Fraction(float(found)) - exact)
        assert all(distance <= abs(Fraction(float(other)) - exact) for other in near)


def test_axes_before_and_since_opset_13() -> None:
    plain, second = ir.node("Softmax", [], {}, name="n"), ir.node("Softmax", [], {"axis": -2}, name="n")
    assert (normalised_axes(plain, 3, 13), normalised_axes(plain, 3, 11)) == ((2,), (1, 2))
    assert (normalised_axes(second, 4, 13), normalised_axes(second, 4, 11)) == ((2,), (2, 3))


def test_any_axis() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    np.testing.assert_array_equal(softmax_over(x, (1,))[0, :, 2], softmax_rows(np.ascontiguousarray(x[:1, :, 2]))[0])
    np.testing.assert_array_equal(softmax_over(x, (1, 2)).reshape(2, 15), softmax_rows(x.reshape(2, 15)))
