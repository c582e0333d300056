"""Softmax: ONNX's definition, four sums side by side."""

from __future__ import annotations

import numpy as np
import pytest

from engine.floats.softmax.definition import exponential, softmax_over, softmax_rows


@pytest.mark.parametrize("length", [1, 3, 4, 7, 16, 65])
def test_rows_sum_to_one_and_agree_with_float64(length: int) -> None:
    x = (np.random.default_rng(0).standard_normal((40, length)) * 8).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(softmax_rows(x), powers / powers.sum(axis=1, keepdims=True), rtol=4e-6, atol=1e-37)


def test_sums_run_in_four_and_that_of_what_is_left_follows() -> None:
    x = np.log(np.array([[1, 2**-24, 2**-24, 2**-24, 2**-24, 2**-24]], np.float32)).astype(np.float32)
    powers = exponential(x)[0]
    total = ((powers[0] + powers[2]) + (powers[1] + powers[3])) + (powers[4] + powers[5])
    np.testing.assert_array_equal(softmax_rows(x)[0], powers * (np.float32(1) / total))


def test_what_is_far_below_the_largest_is_nothing() -> None:
    assert softmax_rows(np.array([[0, -87, -88, -1e9, -np.inf]], np.float32))[0, 2:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("row", [[1, np.nan], [np.inf, 0], [-np.inf, -np.inf]])
def test_rows_without_a_largest_number_are_undefined(row: list[float]) -> None:
    assert np.isnan(softmax_rows(np.array([row], np.float32))).all()


def test_any_axis() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    np.testing.assert_array_equal(softmax_over(x, (1,))[0, :, 2], softmax_rows(np.ascontiguousarray(x[:1, :, 2]))[0])
    np.testing.assert_array_equal(softmax_over(x, (1, 2)).reshape(2, 15), softmax_rows(x.reshape(2, 15)))
