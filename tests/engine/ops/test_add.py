"""Sums of two activations: their integers, how these follow from scales, and when a convolution adds."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ir import MARK_ON
from engine.ops.add import AddRule, runs_as_convolution
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import bound, evaluate, float_node, int8, lowered, refused, scaled, tensor

MAP = (1, 4, 8, 8)


def add(a: tuple[int, ...] = MAP, b: tuple[int, ...] = MAP) -> ir.Node:
    return float_node("Add", [tensor("a", *a), tensor("b", *b)], np.broadcast_shapes(a, b))


def test_operands_are_shifted_and_multiplied_before_they_are_summed() -> None:
    x, e = int8(3, -1), int8(5, -1)
    shifts = {"x_shift": [2], "e_scale": [3]}
    assert evaluate("HzSElementwiseAdd", [x, e], 2, **shifts, e_shift=[1]).ravel().tolist() == [42, -10]
    assert evaluate("HzSElementwiseAdd", [x, e], 2, **shifts, e_shift=[-1]).ravel().tolist() == [19, -6]


def test_the_sum_is_floored_saturated_multiplied_and_rounded() -> None:
    output = {"accu_right_shift": [1], "output_scale": [3], "output_right_shift": [1]}
    assert evaluate("HzSElementwiseAdd", [int8(20), int8(23)], 2, **output).item() == 32
    assert evaluate("HzSElementwiseAdd", [int8(20), int8(23)], 2, rounding_method="FLOOR", **output).item() == 31
    wide = {"x_shift": [12], "output_right_shift": [10], "rounding_method": "FLOOR"}
    assert evaluate("HzSElementwiseAdd", [int8(127), int8(0)], 2, **wide).item() == 31


def test_the_operand_of_the_larger_scale_comes_first() -> None:
    made = lowered(AddRule(), add(), a=scaled(0.25), b=scaled(0.5), y=scaled(0.5))
    assert (made.op_type, made.inputs, made.scale) == ("HzSElementwiseAdd", ["b NHWC", "a NHWC"], [0.5])
    wanted = {"x_shift": 15, "e_scale": 1 << 14, "e_shift": 0, "accu_right_shift": 7, "output_scale": 1 << 14}
    assert {name: made.attributes[name] for name in wanted} == {name: [one] * 4 for name, one in wanted.items()}
    assert made.attributes["output_right_shift"] == [22] * 4
    same = lowered(AddRule(), add(), a=scaled(0.5), b=scaled(0.5), y=scaled(0.5))
    assert same.inputs == ["a NHWC", "b NHWC"]


def test_the_shift_of_the_first_operand_is_limited() -> None:
    """6 on bernoulli2: a multiplier of six bits rather than fifteen."""
    node = add(MAP, (1, 4, 1, 1))
    made = lowered(AddRule(), node, march="bernoulli2", a=scaled(0.5), b=scaled(0.25), y=scaled(0.5))
    assert [made.attributes[name][0] for name in ("x_shift", "e_scale", "accu_right_shift")] == [6, 32, 0]
    assert made.attributes["output_right_shift"] == [20] * 4


def test_a_sum_on_bernoulli2_rounds_down() -> None:
    node, scales = add(MAP, (1, 4, 1, 1)), {"a": scaled(0.5), "b": scaled(0.25), "y": scaled(0.5)}
    made = {march: lowered(AddRule(), node, march=march, **scales) for march in ("bernoulli2", "bayes", "bayes-e")}
    assert [one.attributes["rounding_method"] for one in made.values()] == ["FLOOR", "ROUND", "ROUND"]


def test_rounding_down_widens_the_bound_by_half_a_unit() -> None:
    shifts = {"x_shift": [0], "e_scale": [1], "e_shift": [0], "accu_right_shift": [0]}
    output = {"output_scale": [1 << 14], "output_right_shift": [14], "output_bit": 8}
    rounded, floored = (
        bound("HzSElementwiseAdd", add(), [0.5, 0.5], 0.5, **shifts, **output, rounding_method=method)
        for method in ("ROUND", "FLOOR")
    )
    np.testing.assert_allclose(floored - rounded, 0.25)


def test_maps_of_one_shape_are_added_by_a_convolution_on_bernoulli2() -> None:
    x = tensor("x", *MAP)
    twice, rest = float_node("Add", [x, x], MAP), [add(), add(MAP, (1, 4, 1, 1))]
    marches = [load_chip(name) for name in ("bernoulli2", "bayes-e")]
    found = [runs_as_convolution(node, march) for node, march in product([*rest, twice], marches)]
    assert found == [True, False, False, False, False, False]
    node = add()
    ir.node("Softmax", [tensor("z", *MAP)], outputs=[node.inputs[1]], metadata_props={MARK_ON: "CPU"})
    assert not runs_as_convolution(node, marches[0])


def test_such_a_sum_takes_its_relu() -> None:
    node = add()
    relu = float_node("Relu", [node.outputs[0]], MAP)
    b2, be = load_chip("bernoulli2"), load_chip("bayes-e")
    assert AddRule().absorbs([node], relu, b2)
    assert not AddRule().absorbs([node], relu, be)
    assert not AddRule().absorbs([node, relu], relu, b2)


@pytest.mark.parametrize(
    ("other", "march", "code"),
    [
        (MAP, "bernoulli2", None),
        ((1, 4, 1, 1), "bernoulli2", None),
        ((1, 1, 1, 1), "bernoulli2", Code.SINGLE_NUMBER),
        ((1, 1, 8, 8), "bernoulli2", Code.ONE_CHANNEL_ADDED),
        ((1, 1, 8, 8), "bayes", None),
        ((4, 8, 8), "bayes", Code.RANKS_DIFFER),
    ],
)
def test_what_is_broadcast_over_a_map(other: tuple[int, ...], march: str, code: Code | None) -> None:
    assert refused(AddRule(), add(MAP, other), march) is code


def test_both_operands_are_activations() -> None:
    assert AddRule().activations(add()) == (0, 1)


def test_the_bound_is_a_rounding_and_what_narrowing_drops() -> None:
    integers = {"x_shift": [15], "e_scale": [1 << 14], "e_shift": [0], "accu_right_shift": [7]}
    output = {"output_scale": [-(1 << 14)], "output_right_shift": [22]}
    found = bound("HzSElementwiseAdd", add(), [0.5, 0.25], 0.5, **integers, **output)
    np.testing.assert_allclose(found, 128 * 0.75 * 2.0**-24 + (0.5 + 2.0**-8) * 0.5, rtol=1e-12)
