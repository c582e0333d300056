"""Slopes by what they change, one per channel."""

from __future__ import annotations

import numpy as np

from engine.ops.prelu import slope_attributes
from tests.engine.ops.operators import bound, constant, evaluate, float_node, int8, tensor


def test_every_channel_has_its_slope() -> None:
    x = int8(-3, -3, 5, 5, shape=(1, 1, 2, 2))
    found = evaluate("HzPRelu", [x], alpha_scale=[64, 200], alpha_shift=[7, 7])
    assert found.ravel().tolist() == [-1, -5, 5, 5]
    assert evaluate("HzPRelu", [x], alpha_scale=[64], alpha_shift=[7]).ravel().tolist() == [-1, -1, 5, 5]
    assert evaluate("HzPRelu", [int8(-100)], alpha_scale=[200], alpha_shift=[7]).item() == -128


def test_slopes_of_more_than_1_round_halves_down() -> None:
    """As in 962 of 962 halves asked: -13.5 is -14, where a slope of a half makes -1 of -1.5."""
    x = int8(-9, -3, -9, 9, shape=(1, 1, 2, 2))
    assert evaluate("HzPRelu", [x], alpha_scale=[192, 64], alpha_shift=[7, 7]).ravel().tolist() == [-14, -1, -14, 9]


def test_a_slope_of_0_makes_minus_1_of_the_lowest_integer() -> None:
    """No more than 127 is taken off: three integers of two slopes asked."""
    assert evaluate("HzPRelu", [int8(-128, -127)], alpha_scale=[0], alpha_shift=[6]).ravel().tolist() == [-1, 0]


def test_what_a_slope_changes_has_a_magnitude_of_int8() -> None:
    """Slopes that were asked, and what the original made of them; 0.00773 is below 1/128."""
    slopes = np.array([0.1, 0.00773, 0.01, 0.48828125, 0.6, 0.99, 0.9999, 1.0, 1.25, 3.0, 300.0], np.float32)
    assert slope_attributes(slopes) == {
        "alpha_scale": [13, 0, 1, 63, 154, 8110, 32765, 1, 320, 96, 300],
        "alpha_shift": [7, 6, 7, 7, 8, 13, 15, 0, 8, 5, 0],
        "data_format": "NHWC",
    }
    assert slope_attributes(np.array([0.25]))["alpha_scale"] == [32], "one for all channels"


def test_the_bound_is_that_of_the_slope_and_half_a_unit() -> None:
    head = float_node("PRelu", [tensor("x", 1, 1, 2, 2), constant("s", [0.1])], (1, 1, 2, 2))
    found = float(bound("HzPRelu", head, [0.5], 0.5, alpha_scale=[13], alpha_shift=[7])[0])
    np.testing.assert_allclose(found, abs(13 / 128 - 0.1) * 64 + 0.1 * 64 * 2.0**-24 + 0.25, rtol=1e-12)
