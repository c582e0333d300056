"""Products of two activations, element by element."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.chips import load_chip
from engine.ops.core.reasons import Code
from engine.ops.mul import MulRule
from tests.engine.ops.operators import bound, constant, evaluate, float_node, int8, lowered, refused, scaled, tensor

OP = "HzSElementwiseMul"
MAP = (1, 4, 8, 8)


def test_the_product_is_floored_then_rounded() -> None:
    output = {"accu_right_shift": [1], "output_scale": [3], "output_right_shift": [2]}
    assert evaluate(OP, [int8(7, 5, -7), int8(1, 1, 1)], 2, **output).ravel().tolist() == [2, 2, -3]
    floored = evaluate(OP, [int8(7, 5, -7), int8(1, 1, 1)], 2, rounding_method="FLOOR", **output)
    assert floored.ravel().tolist() == [2, 1, -3]


def test_bernoulli2_adds_half_an_output_unit_first() -> None:
    """Half a unit is 8 / (2 x 3), rounded: 1."""
    output = {"accu_right_shift": [1], "output_scale": [3], "output_right_shift": [2], "add_rounding_bias": 1}
    assert evaluate(OP, [int8(7, 5, 4), int8(1, 1, 1)], 2, **output).ravel().tolist() == [3, 2, 1]


def test_a_gate_of_one_pixel_is_broadcast() -> None:
    x, gate = int8(1, 2, 3, 4, shape=(1, 1, 2, 2)), int8(2, 3, shape=(1, 1, 1, 2))
    assert evaluate(OP, [x, gate], 2).ravel().tolist() == [2, 6, 6, 12]


def test_the_ratio_is_of_both_scales() -> None:
    node = float_node("Mul", [tensor("a", *MAP), tensor("b", *MAP)], MAP)
    scales = {"a": scaled(0.5), "b": scaled(0.25), "y": scaled(0.125)}
    made = lowered(MulRule(), node, **scales)
    names = ("accu_right_shift", "output_scale", "output_right_shift")
    assert [made.attributes[name] for name in names] == [[0], [1 << 14], [14]]
    assert "add_rounding_bias" not in made.attributes
    assert lowered(MulRule(), node, march="bernoulli2", **scales).attributes["add_rounding_bias"] == 1


def test_constants_are_multiplied_where_no_convolution_holds_them() -> None:
    node = float_node("Mul", [tensor("a", *MAP), constant("k", np.ones((8, 8), np.float32))], MAP)
    assert [refused(MulRule(), node, march) for march in ("bayes", "bernoulli2")] == [None, None]
    divided = ir.node("Mul", [tensor("c", *MAP), ir.node("HzRsqrt", [tensor("v", *MAP)], domain="horizon").outputs[0]])
    divided.outputs[0].shape = ir.Shape(MAP)
    scaled = float_node("Mul", [divided.outputs[0], constant("k", np.ones((8, 8), np.float32))], MAP)
    found = [
        [MulRule().late_refusal(each, load_chip(march)) for march in ("bayes", "bernoulli2")] for each in (node, scaled)
    ]
    codes = [[None if reason is None else reason.code for reason in late] for late in found]
    assert codes == [[None, None], [None, Code.CONSTANT_NOT_FOLDED]]
    assert MulRule().activations(node) == (0, 1)


def test_the_rounding_constant_is_rounded_itself() -> None:
    node = float_node("Mul", [tensor("a", *MAP), tensor("b", *MAP)], MAP)
    output = {"output_scale": [1 << 14], "output_right_shift": [14]}
    plain, biased = (
        float(bound(OP, node, [0.5, 0.25], 0.125, add_rounding_bias=rounding, **output)[0]) for rounding in (0, 1)
    )
    assert plain == 0.125 * 2.0**14 * 2.0**-24 + 0.5 * 0.125
    assert biased - plain == 0.5 * 0.125
