"""Maxima of maps."""

from __future__ import annotations

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.global_max_pool import GlobalMaxPoolRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, refused, scaled, tensor


def test_the_largest_pixel_of_every_channel() -> None:
    x = int8(1, -5, 3, -9, shape=(1, 2, 1, 2))
    assert evaluate("HzQuantizedGlobalMaxPool", [x]).tolist() == [[[[3, -5]]]]


def test_only_maps_of_int8_and_the_scale_stays() -> None:
    rule = GlobalMaxPoolRule()
    nodes = [float_node("GlobalMaxPool", [tensor("x", *shape)], shape) for shape in ((1, 3, 4, 4), (1, 3, 4))]
    assert [refused(rule, node) for node in nodes] == [None, Code.POOLING_2D]
    assert (rule.int16_inputs, rule.int16_outputs, rule.tie(nodes[0])) == (False, False, Tie.OUTPUT_TAKES_INPUT)
    made = lowered(rule, nodes[0], x=scaled(0.5))
    assert (made.op_type, made.bits, made.scale) == ("HzQuantizedGlobalMaxPool", 8, [0.5])
