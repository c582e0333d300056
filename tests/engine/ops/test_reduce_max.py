"""Maxima along an axis."""

from __future__ import annotations

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.reduce_max import ReduceMaxRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, refused, scaled, tensor


def test_the_axis_stays_with_length_1() -> None:
    x = int8(1, -5, 3, -9, shape=(1, 2, 1, 2))
    assert evaluate("HzQuantizedReduceMax", [x], axis=1).tolist() == [[[[3, -5]]]]
    assert evaluate("HzQuantizedReduceMax", [x], axis=3).tolist() == [[[[1]], [[3]]]]


def test_the_axis_is_that_of_nhwc_and_the_scale_stays() -> None:
    node = float_node("ReduceMax", [tensor("x", 1, 4, 8, 8)], (1, 1, 8, 8), axes=[1])
    made = lowered(ReduceMaxRule(), node, x=scaled(0.5, qtype="int16"))
    assert (made.attributes, made.bits, made.scale) == ({"axis": 3, "output_bit": 16}, 16, [0.5])
    assert ReduceMaxRule().tie(node) is Tie.OUTPUT_TAKES_INPUT
    rows = float_node("ReduceMax", [tensor("x", 1, 4, 8)], (1, 1, 8), axes=[1])
    assert lowered(ReduceMaxRule(), rows, x=scaled(0.5)).attributes["axis"] == 1


def test_several_axes_are_refused_once_the_input_is_quantised() -> None:
    node = float_node("ReduceMax", [tensor("x", 1, 4, 8, 8)], (1, 4, 1, 1), axes=[2, 3])
    assert refused(ReduceMaxRule(), node) is None
    assert refused(ReduceMaxRule(), node, late=True) is Code.ONE_AXIS
