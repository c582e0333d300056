"""Integers to floats."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops.dequantize import along_axis
from tests.engine.ops.operators import evaluate


def test_the_product_is_that_of_float32() -> None:
    """16777217 is no float32: it is rounded to even before it is multiplied."""
    x = np.array([[16777217, -3]], np.int32)
    found = evaluate("HzDequantize", [x, np.array([0.5], np.float32)])
    assert found.dtype == np.float32
    assert found.tolist() == [[8388608.0, -1.5]]


@pytest.mark.parametrize(("axis", "expected"), [(1, [[1.0, 2.0], [6.0, 8.0]]), (2, [[1.0, 4.0], [3.0, 8.0]])])
def test_scales_stand_along_their_axis(axis: int, expected: list[list[float]]) -> None:
    x = np.array([[[1, 2], [3, 4]]], np.int8)
    scale = np.array([1, 2], np.float32)
    assert evaluate("HzDequantize", [x, scale], axis=axis)[0].tolist() == expected


def test_one_value_is_a_scalar_and_several_fill_one_axis() -> None:
    assert along_axis(np.ones(1), 4, 3).shape == ()
    assert along_axis(np.ones(3), 4, 1).shape == (1, 3, 1, 1)
    assert along_axis(np.ones(3), 4, -1).shape == (1, 1, 1, 3)


def test_zero_points_are_taken_off_first() -> None:
    x = np.array([[-128, 127]], np.int8)
    found = evaluate("HzDequantize", [x, np.array([0.5], np.float32), np.array([-128], np.int8)])
    assert found.tolist() == [[0.0, 127.5]]
