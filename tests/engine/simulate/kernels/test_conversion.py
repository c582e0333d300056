"""Floats to integers and back, and bilinear mixing."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.kernels.conversion import INT32_LIMIT, ROUND_16
from engine.simulate.lowering.elementwise import lower_dequantize, lower_quantize
from engine.simulate.lowering.movement import lower_resize
from tests.engine.simulate.machine import compute

EDGE = np.nextafter(INT32_LIMIT, np.float32(0))


@pytest.mark.parametrize("scales", [[0.5], [0.5] * 8])
@pytest.mark.parametrize(("bits", "least", "most"), [(8, -128, 127), (16, -32768, 32767)])
def test_half_is_rounded_to_even_and_what_does_not_fit_becomes_the_least(
    scales: list[float], bits: int, least: int, most: int
) -> None:
    """The same for one scale and for one per element."""
    values = np.array([0.25, 0.75, -0.25, 40000, EDGE / 2, 2.0**30, np.nan, -np.inf], np.float32)
    found = compute(lower_quantize, "HzQuantize", [values.reshape(1, 8), np.array(scales, np.float32)], bits=bits)
    assert found.ravel().tolist() == [0, 2, 0, most, most, least, least, least]


def test_integers_become_float32_before_they_are_multiplied() -> None:
    x = np.array([[16777217, -3]], np.int32)
    for scales in ([0.5], [0.5, 0.25]):
        found = compute(lower_dequantize, "HzDequantize", [x, np.array(scales, np.float32)])
        assert found.ravel().tolist() == [8388608.0, -3 * scales[-1]]


def test_four_neighbours_are_mixed_and_rounded_once() -> None:
    assert ROUND_16 == 1 << 15
    x = np.array([[0, 102], [-102, 3]], np.int8).reshape(1, 2, 2, 1)
    one = compute(lower_resize, "HzQuantizedRoiResize", [x], sizes=[4, 4])
    assert one[0, 0, :, 0].tolist() == [0, 26, 77, 102]
    twice = {"sizes": [4, 4], "is_interpolate_twice": 1, "step_decimal_bit": 8}
    assert compute(lower_resize, "HzQuantizedRoiResize", [x], **twice)[0, 0, :, 0].tolist() == [0, 25, 76, 102]
