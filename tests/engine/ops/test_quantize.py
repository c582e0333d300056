"""Floats to integers."""

from __future__ import annotations

import numpy as np

from engine.ops.quantize import INT32_LIMIT
from tests.engine.ops.operators import evaluate


def test_half_is_rounded_to_even_and_what_does_not_fit_becomes_the_minimum() -> None:
    x = np.array([0.5, 1.5, -0.5, 300, -300, 1e10, -1e10, np.inf, -np.inf, np.nan], np.float32).reshape(1, -1)
    result = evaluate("HzQuantize", [x, np.ones(1, np.float32)], bits=8)
    assert result.ravel().tolist() == [0, 2, 0, 127, -128, -128, -128, -128, -128, -128]


def test_what_just_fits_an_int32_saturates_to_its_own_side() -> None:
    x = np.array([[np.nextafter(INT32_LIMIT, np.float32(0)), INT32_LIMIT]], np.float32)
    assert evaluate("HzQuantize", [x, np.ones(1, np.float32)], bits=16).tolist() == [[32767, -32768]]


def test_scales_stand_along_their_axis() -> None:
    x = np.array([[[3.0, 3.0], [3.0, 3.0]]], np.float32)
    scale = np.array([1, 2], np.float32)
    assert evaluate("HzQuantize", [x, scale], axis=1)[0].tolist() == [[3, 3], [2, 2]]
    assert evaluate("HzQuantize", [x, scale], axis=2)[0].tolist() == [[3, 2], [3, 2]]


def test_zero_points_are_added_before_what_is_too_large_saturates() -> None:
    x = np.array([[-1.0, 0.5, 3.0, 255.0, 300.0, np.inf], [-1.0, 0.5, 3.0, 255.0, 300.0, np.nan]], np.float32)
    zeros = np.array([-128, 100], np.int8)
    result = evaluate("HzQuantize", [x, np.ones(2, np.float32), zeros], axis=0)
    assert result.tolist() == [[-128, -128, -125, 127, 127, -128], [99, 100, 103, 127, 127, -128]]
