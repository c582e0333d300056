"""Convolutions: their integers, what joins them, where they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ops.conv import ConvRule, summed_operand
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import (
    Recorder,
    constant,
    evaluate,
    float_node,
    int8,
    refused,
    scaled,
    tensor,
)

MAP = (1, 2, 8, 8)


def pointwise(x: list[int], bias: int = 0, **attributes: Any) -> list[int]:
    """A convolution of one channel with weight 1."""
    b_scale = np.array([attributes.pop("b_scale", 0)], np.int8)
    constants = [np.ones((1, 1, 1, 1), np.int8), np.array([bias], np.int32), b_scale]
    found = evaluate("HzSQuantizedConv", [int8(*x), *constants], kernel_shape=[1, 1], **attributes)
    return [int(v) for v in found.ravel()]


def test_convolution_floors_twice() -> None:
    assert pointwise([-3, -1, 1, 3], right_shift=[1], scale=[3], out_shift=[1]) == [-3, -2, 0, 1]


def test_convolution_saturates_to_16_bits_before_scaling() -> None:
    assert pointwise([1], bias=10**6, right_shift=[0], scale=[1], out_shift=[10]) == [31]


def test_the_accumulator_has_32_bits() -> None:
    wide = {"output_bit": 32, "high_precision_output": 1}
    assert pointwise([0, 1], bias=2**31 - 1, **wide) == [2**31 - 1, -(2**31)]


def test_negative_bias_scale_is_ignored() -> None:
    assert pointwise([0], bias=5, b_scale=-3) == [5]
    assert pointwise([0], bias=5, b_scale=3) == [40]


def test_convolution_without_bias() -> None:
    x, weight = int8(-3, 4), np.full((1, 1, 1, 1), 2, np.int8)
    wide = {"kernel_shape": [1, 1], "output_bit": 32, "high_precision_output": 1, "use_bias": 0}
    assert evaluate("HzSQuantizedConv", [x, weight], **wide).ravel().tolist() == [-6, 8]


def test_inputs_must_be_those_that_the_attributes_speak_of() -> None:
    x, weight, bias = np.zeros((1, 1, 1, 1), np.int8), np.ones((1, 1, 1, 1), np.int8), np.ones(1, np.int32)
    with pytest.raises(ValueError, match="2 inputs; use_bias 1 and use_sumin 0 need 4"):
        evaluate("HzSQuantizedConv", [x, weight], kernel_shape=[1, 1])
    with pytest.raises(ValueError, match="4 inputs; use_bias 0 and use_sumin 0 need 2"):
        evaluate("HzSQuantizedConv", [x, weight, bias, bias.astype(np.int8)], kernel_shape=[1, 1], use_bias=0)


def test_only_relu_is_an_activation() -> None:
    wide = {"output_bit": 32, "high_precision_output": 1}
    assert pointwise([-7, 7], activation="relu", **wide) == [0, 7]
    assert pointwise([-7, 7], activation="relu6", **wide) == [-7, 7]


def test_taps_groups_strides_and_dilations() -> None:
    wide = {"output_bit": 32, "high_precision_output": 1, "use_bias": 0}
    x = int8(1, 2, 3, 4, 5)
    taps = int8(1, 10, shape=(1, 1, 2, 1))
    strided = evaluate("HzSQuantizedConv", [x, taps], kernel_shape=[1, 2], strides=[1, 2], **wide)
    assert strided.ravel().tolist() == [21, 43]
    dilated = evaluate("HzSQuantizedConv", [x, taps], kernel_shape=[1, 2], dilations=[1, 3], pads=[0, 1, 0, 0], **wide)
    assert dilated.ravel().tolist() == [30, 41, 52]
    grouped = evaluate(
        "HzSQuantizedConv", [int8(1, 2, 3, 4, shape=(1, 1, 1, 4)), int8(1, 10, 2, 20, shape=(2, 1, 1, 2))],
        kernel_shape=[1, 1], group=2, **wide,
    )  # fmt: skip
    assert grouped.ravel().tolist() == [21, 86]


def test_fused_sum_floors_a_right_shift() -> None:
    x, e = int8(0, 0), int8(-1, 3)
    constants = [np.ones((1, 1, 1, 1), np.int8), np.zeros(1, np.int32), np.zeros(1, np.int8)]
    sums = {"kernel_shape": [1, 1], "use_sumin": 1, "e_scale": [3], "e_shift": [-1]}
    result = evaluate("HzSQuantizedConv", [x, *constants, e], output_bit=32, high_precision_output=1, **sums)
    assert result.ravel().tolist() == [-2, 4]


def conv(weights: tuple[int, ...] = (2, 2, 1, 1), **attributes: Any) -> ir.Node:
    weight = constant("w", np.ones(weights, np.float32))
    return float_node(
        "Conv", [tensor("x", *MAP), weight, constant("b", np.array([2, -2], np.float32))], MAP, **attributes
    )


@pytest.mark.parametrize(
    ("march", "weights", "attributes", "code"),
    [
        ("bayes-e", (1, 1, 181, 181), {}, None),  # volume 32761
        ("bayes-e", (1, 1, 182, 181), {}, Code.KERNEL_VOLUME),
        ("bernoulli2", (1, 1, 7, 7), {}, None),
        ("bernoulli2", (1, 1, 8, 1), {}, Code.KERNEL_SIDES),
        ("bayes-e", (1, 8192, 1, 1), {}, None),
        ("bayes-e", (1, 8193, 1, 1), {}, Code.INPUT_CHANNELS),
        ("bernoulli2", (1, 4097, 1, 1), {}, Code.INPUT_CHANNELS),
        ("bayes-e", (1, 1, 3, 3), {"dilations": [1, 18]}, None),
        ("bayes-e", (1, 1, 3, 3), {"dilations": [1, 19]}, Code.DILATION),
        ("bernoulli2", (1, 1, 3, 3), {"dilations": [5, 1]}, Code.DILATION),
        ("bernoulli2", (1, 1, 3, 1), {"dilations": [2, 1]}, Code.DILATION_ROWS),
        ("bernoulli2", (1, 1, 1, 3), {"dilations": [1, 2]}, None),
        ("bayes-e", (1, 1, 3, 1), {"dilations": [2, 1]}, None),
    ],
)
def test_sizes_up_to_the_limits_of_the_march(
    march: str, weights: tuple[int, ...], attributes: dict[str, Any], code: Code | None
) -> None:
    assert refused(ConvRule(), conv(weights, **attributes), march) is code


def test_weights_are_constants_and_maps_have_two_sides() -> None:
    computed = float_node("Conv", [tensor("x", *MAP), tensor("w", 2, 2, 1, 1)], MAP)
    assert refused(ConvRule(), computed) is Code.NOT_CONSTANT
    line = float_node("Conv", [tensor("x", 1, 2, 8), constant("w", np.ones((2, 2, 1), np.float32))], (1, 2, 8))
    assert refused(ConvRule(), line) is Code.CONVOLUTION_2D


def test_a_sum_then_an_activation_join_it() -> None:
    rule, march, head = ConvRule(), load_chip("bayes-e"), conv()
    added = float_node("Add", [head.outputs[0], tensor("e", *MAP)], MAP)
    relu = float_node("Relu", [added.outputs[0]], MAP)
    assert rule.absorbs([head], added, march)
    assert rule.absorbs([head], relu, march)
    assert rule.absorbs([head, added], relu, march)
    assert not rule.absorbs([head, relu], added, march)
    assert not rule.absorbs([head, added], added, march)
    assert not rule.absorbs([head], float_node("Add", [head.outputs[0]] * 2, MAP), march)
    assert not rule.absorbs([head], float_node("Add", [head.outputs[0], tensor("e", 1, 2, 1, 1)], MAP), march)
    assert not rule.absorbs([head], float_node("Sigmoid", [head.outputs[0]], MAP), march)
    swapped = float_node("Add", [tensor("e", *MAP), head.outputs[0]], MAP)
    assert str(getattr(summed_operand([head, swapped]), "name", None)) == "e"
    assert summed_operand([head, relu]) is None


def test_dilated_results_are_requantised() -> None:
    assert [ConvRule().stays_int32(conv(dilations=[1, step])) for step in (1, 2)] == [True, False]


def test_integers_follow_from_scales() -> None:
    """Scale 0.5 by 1 to 0.5: nothing but the multiplier 1/2 * 2; the bias is 4 and half an output unit."""
    recorder = Recorder(x=scaled(0.5), w=scaled(1, 1), y=scaled(0.5))
    ConvRule().lower([conv()], recorder)
    (made,) = recorder.nodes
    assert (made.bits, made.scale) == (8, [0.5])
    assert made.inputs == ["x NHWC", "n_w_quantized", "n_b_quantized", "n_b_b_scale"]
    assert recorder.constants["n_w_quantized"].shape == (2, 1, 1, 2)
    assert recorder.constants["n_b_quantized"].tolist() == [4 + 1, -4 + 1]
    assert [made.attributes[name] for name in ("right_shift", "scale", "out_shift")] == [
        [0, 0],
        [1 << 14] * 2,
        [14, 14],
    ]
    assert (made.attributes["use_bias"], made.attributes["weight_thresholds"]) == (1, [127.0, 127.0])
    assert "dilations" not in made.attributes
    assert "use_sumin" not in made.attributes


def test_a_tail_is_the_accumulator() -> None:
    recorder = Recorder(x=scaled(0.5), w=scaled(1, 2))
    ConvRule().lower([conv()], recorder)
    (made,) = recorder.nodes
    assert (made.bits, made.scale, made.attributes["high_precision_output"]) == (32, [0.5, 1.0], 1)
    assert recorder.constants["n_b_quantized"].tolist() == [4, -2]
    bare = float_node("Conv", [tensor("x", *MAP), constant("w", np.ones((2, 2, 1, 1), np.float32))], MAP)
    recorder = Recorder(x=scaled(0.5), w=scaled(1, 2))
    ConvRule().lower([bare], recorder)
    (made,) = recorder.nodes
    assert (made.inputs, made.attributes["use_bias"]) == (["x NHWC", "n_w_quantized"], 0)


def test_the_summed_operand_comes_last_and_relu_is_an_attribute() -> None:
    head = conv()
    added = float_node("Add", [head.outputs[0], tensor("e", *MAP)], MAP)
    relu = float_node("Relu", [added.outputs[0]], MAP)
    relu.outputs[0].name = "z"
    recorder = Recorder(x=scaled(0.5), w=scaled(1, 1), e=scaled(2), z=scaled(0.5))
    ConvRule().lower([head, added, relu], recorder)
    (made,) = recorder.nodes
    assert (made.inputs[-1], made.outputs) == ("e NHWC", ["z"])
    assert [made.attributes[name] for name in ("use_sumin", "activation")] == [1, "relu"]
    assert (made.attributes["e_scale"], made.attributes["e_shift"]) == ([1 << 14] * 2, [-12] * 2)


def test_unsigned_inputs_are_padded_before_and_unsigned_results_need_no_relu() -> None:
    head = conv(pads=[1, 0, 1, 0])
    relu = float_node("Relu", [head.outputs[0]], MAP)
    relu.outputs[0].name = "z"
    recorder = Recorder(x=scaled(0.5, qtype="uint8"), w=scaled(1, 1), z=scaled(0.5, qtype="uint8"))
    ConvRule().lower([head, relu], recorder)
    (made,) = recorder.nodes
    assert (made.inputs[0], made.attributes["pads"]) == ("x padded [1, 0, 1, 0]", [0, 0, 0, 0])
    assert "activation" not in made.attributes
    assert recorder.constants["n_b_quantized"].tolist() == [5 + 2 * 128 - 128, -3 + 2 * 128 - 128]
    signed = Recorder(x=scaled(0.5), w=scaled(1, 1), z=scaled(0.5))
    ConvRule().lower([head, relu], signed)
    assert (signed.nodes[0].inputs[0], signed.nodes[0].attributes["pads"]) == ("x NHWC", (1, 0, 1, 0))


@pytest.mark.parametrize(("step", "bits"), [(1, 16), (2, 8)])
def test_a_dilated_convolution_gives_int8_where_int16_is_wanted(step: int, bits: int) -> None:
    """Its readers requantise it: ``Conv_4`` of sknet_c."""
    node = float_node("Conv", [tensor("x", *MAP), constant("w", np.ones((2, 2, 1, 1)))], MAP, dilations=[step, step])
    lowering = Recorder(x=scaled(0.5), w=scaled(1 / 127), y=scaled(2 / 32767, qtype="int16"))
    ConvRule().lower([node], lowering)
    assert lowering.nodes[0].bits == bits


@pytest.mark.parametrize(
    ("attributes", "narrow"),
    [
        ({}, False),
        ({"strides": [2, 2]}, False),
        ({"group": 2}, False),
        ({"dilations": [2, 2]}, True),
        ({"group": 2, "strides": [2, 2]}, True),
        ({"group": 2, "strides": [1, 2]}, True),
        ({"group": 2, "strides": [3, 3]}, False),
    ],
)
def test_int16_inputs_that_the_bpu_has_no_convolution_for_are_int8(attributes: dict[str, Any], narrow: bool) -> None:
    """Dilated, or of one channel per group at an even stride: ``sknet`` and ``mobilenet_v3``."""
    weight = constant("w", np.ones((2, 2 // attributes.get("group", 1), 1, 1), np.float32))
    node = float_node("Conv", [tensor("x", *MAP), weight], MAP, **attributes)
    lowering = Recorder(x=scaled(2 / 32767, qtype="int16"), w=scaled(1 / 127), y=scaled(1.0))
    ConvRule().lower([node], lowering)
    (found,) = lowering.nodes
    assert lowering.forms["x"].bits == (8 if narrow else 16)
    assert ("input_scales" in found.attributes) is narrow
    if narrow:
        np.testing.assert_allclose(found.attributes["input_scales"], 2 / 127, rtol=1e-6)
    assert (min(found.attributes["right_shift"]) >= 8) is not narrow


@pytest.mark.parametrize(("channels", "bits"), [(256, 16), (257, 8)])
def test_an_int32_result_of_many_weights_is_that_of_int8(channels: int, bits: int) -> None:
    shape = (1, channels, 1, 1)
    node = float_node(
        "Conv", [tensor("x", *shape), constant("w", np.ones((2, channels, 1, 1), np.float32))], (1, 2, 1, 1)
    )
    lowering = Recorder(x=scaled(2 / 32767, qtype="int16"), w=scaled(1 / 127, 1 / 127))
    ConvRule().lower([node], lowering)
    assert lowering.forms["x"].bits == bits
