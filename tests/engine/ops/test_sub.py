"""Differences of two activations."""

from __future__ import annotations

from engine.ops.core.reasons import Code
from engine.ops.sub import SubRule
from tests.engine.ops.operators import constant, evaluate, float_node, int8, lowered, refused, scaled, tensor

MAP = (1, 4, 8, 8)


def test_subtraction_of_swapped_operands_has_a_negative_scale() -> None:
    common = {"x_shift": [1], "e_scale": [3], "output_right_shift": [1]}
    assert evaluate("HzSElementwiseSub", [int8(10), int8(4)], 2, output_scale=[1], **common).item() == 4
    assert evaluate("HzSElementwiseSub", [int8(10), int8(4)], 2, output_scale=[-1], **common).item() == -4


def test_the_operand_of_the_larger_scale_comes_first() -> None:
    node = float_node("Sub", [tensor("a", *MAP), tensor("b", *MAP)], MAP)
    plain = lowered(SubRule(), node, a=scaled(0.5), b=scaled(0.25), y=scaled(0.5))
    swapped = lowered(SubRule(), node, a=scaled(0.25), b=scaled(0.5), y=scaled(0.5))
    assert (plain.inputs, swapped.inputs) == (["a NHWC", "b NHWC"], ["b NHWC", "a NHWC"])
    assert plain.attributes["output_scale"] == [1 << 14]
    assert swapped.attributes["output_scale"] == [-(1 << 14)]
    assert "e_shift" not in plain.attributes


def test_operands_have_one_rank() -> None:
    node = float_node("Sub", [tensor("a", *MAP), tensor("b", 8, 8)], MAP)
    assert refused(SubRule(), node) is Code.RANKS_DIFFER
    fixed = float_node("Sub", [tensor("a", *MAP), constant("b", [1.0])], MAP)
    assert refused(SubRule(), fixed) is None
    assert SubRule().activations(node) == (0, 1)


def test_a_plain_difference_needs_no_attributes() -> None:
    assert evaluate("HzSElementwiseSub", [int8(10, -100), int8(4, 100)], 2).ravel().tolist() == [6, -128]
