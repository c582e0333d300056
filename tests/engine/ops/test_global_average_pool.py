"""Means of maps."""

from __future__ import annotations

import numpy as np

from engine.ops.core.reasons import Code
from engine.ops.global_average_pool import GlobalAveragePoolRule
from tests.engine.ops.operators import bound, evaluate, float_node, int8, lowered, refused, scaled, tensor


def test_both_shifts_round_half_up() -> None:
    op = "HzSQuantizedGlobalAveragePool"
    assert evaluate(op, [int8(1, 2)], accu_right_shift=[1]).item() == 2
    assert evaluate(op, [int8(1, 2)], output_right_shift=[1]).item() == 2
    assert evaluate(op, [int8(-1, -2)], accu_right_shift=[1]).item() == -1
    channels = int8(1, 2, 3, 4, shape=(1, 1, 2, 2))
    assert evaluate(op, [channels], output_scale=[3, 5]).ravel().tolist() == [3 * 4, 5 * 6]


def test_the_narrowed_sum_saturates_to_16_bits() -> None:
    x = np.full((1, 30, 30, 1), 127, np.int8)
    scaling = {"accu_right_shift": [1], "output_scale": [1], "output_right_shift": [9]}
    assert evaluate("HzSQuantizedGlobalAveragePool", [x], **scaling).item() == 64
    assert evaluate("HzSQuantizedGlobalAveragePool", [x], output_bit=32).ravel().tolist() == [900 * 127]


def test_the_ratio_holds_the_number_of_pixels() -> None:
    node = float_node("GlobalAveragePool", [tensor("x", 1, 3, 4, 8)], (1, 3, 1, 1))
    made = lowered(GlobalAveragePoolRule(), node, x=scaled(0.5), y=scaled(0.25))
    assert made.attributes["output_scale"] == [1 << 14] * 3
    shifts = made.attributes["accu_right_shift"][0] + made.attributes["output_right_shift"][0]
    assert 2.0 ** (14 - shifts) == 0.5 / 32 / 0.25
    assert (made.bits, made.scale) == (8, [0.25])


def test_what_is_dequantised_is_the_sum() -> None:
    node = float_node("GlobalAveragePool", [tensor("x", 1, 3, 4, 8)], (1, 3, 1, 1))
    made = lowered(GlobalAveragePoolRule(), node, x=scaled(0.5))
    assert (made.bits, made.scale) == (32, [0.5 / 32])
    assert made.attributes == {"output_bit": 32, "data_format": "NHWC"}


def test_only_maps_are_averaged() -> None:
    nodes = [float_node("GlobalAveragePool", [tensor("x", *shape)], shape) for shape in ((1, 3, 4, 4), (1, 3, 4))]
    assert [refused(GlobalAveragePoolRule(), node) for node in nodes] == [None, Code.POOLING_2D]


def test_the_bound_of_a_sum_is_the_rounding_of_floats() -> None:
    node = float_node("GlobalAveragePool", [tensor("x", 1, 4, 2, 2)], (1, 4, 1, 1))
    shapes = ((1, 2, 2, 4), (1, 1, 1, 4))
    found = bound("HzSQuantizedGlobalAveragePool", node, [0.5], 0.125, shapes=shapes, output_bit=32)
    np.testing.assert_allclose(found, 2.0**-24 * 0.125 * 512 * (1 + 6), rtol=1e-12)
