"""Transposed convolutions: their integers, and where they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.ops.conv_transpose import ConvTransposeRule, per_input_channel, per_output_channel
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import Recorder, constant, evaluate, float_node, int8, refused, scaled, tensor

PLAIN = {"accu_right_shift": [0], "y_quant_scale": [1], "y_right_shift": [0], "use_bias": 0}


def spread(x: list[int], taps: list[int], **attributes: Any) -> list[int]:
    """One row of pixels, one row of taps."""
    weights = int8(*taps, shape=(1, 1, -1, 1))
    inputs = [int8(*x), weights, *attributes.pop("bias", [])]
    found = evaluate("HzSQuantizedConvTranspose", inputs, **{"kernel_shape": [1, len(taps)], **PLAIN, **attributes})
    return [int(value) for value in found.ravel()]


def test_taps_are_not_flipped_and_lie_apart() -> None:
    assert spread([1, 10], [1, 2]) == [1, 12, 20]
    assert spread([1, 10], [1, 2], dilations=[1, 3]) == [1, 10, 0, 2, 20]
    assert spread([1, 10], [1, 2], strides=[1, 3]) == [1, 2, 0, 10, 20]


def test_pads_cut_off_and_output_padding_adds_at_the_end() -> None:
    assert spread([1, 10], [1, 2, 3], pads=[0, 1, 0, 1]) == [12, 23]
    assert spread([1, 10], [1, 2, 3], pads=[0, 1, 0, 1], output_padding=[0, 1]) == [12, 23, 30]
    assert spread([1, 10], [1, 2], output_padding=[0, 1]) == [1, 12, 20, 0]


def test_the_output_floors_twice_and_saturates_in_between() -> None:
    bias = {"bias": [np.array([5], np.int32)], "use_bias": 1}
    assert spread([-1, 1], [3], **bias, b_left_shift=[1]) == [7, 13]
    assert spread([-1, 1], [3], accu_right_shift=[1], y_quant_scale=[3], y_right_shift=[1]) == [-3, 1]
    assert spread([-1, 1], [3], activation="relu") == [0, 3]
    large = {"bias": [np.array([32767], np.int32)], "use_bias": 1, "b_left_shift": [4], "y_right_shift": [10]}
    assert spread([0], [1], **large) == [31]


def test_a_map_is_added_to_the_accumulator() -> None:
    added = {"bias": [int8(5, -6, shape=(1, 1, -1, 1))], "use_sumin": 1, "e_quant_scale": [2], "e_left_shift": [1]}
    assert spread([1, 10], [1], **added) == [21, -14]
    assert spread([1, 10], [1], **added, activation="relu") == [21, 0]


def test_inputs_must_be_those_that_the_attributes_speak_of() -> None:
    with pytest.raises(ValueError, match="3 inputs; use_bias 0 and use_sumin 0 need 2"):
        spread([0], [1], bias=[np.ones(1, np.int32)])


def test_channels_change_places_within_groups() -> None:
    weights = np.arange(4 * 3).reshape(4, 3, 1, 1)
    by_output = per_output_channel(weights, 2)
    assert by_output[:, :, 0, 0].tolist() == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8, 11]]
    np.testing.assert_array_equal(per_input_channel(by_output, 2), weights)


def deconv(kernel: int = 2, width: int = 1, **attributes: Any) -> ir.Node:
    weights = constant("w", np.ones((2, 1, kernel, width), np.float32))
    return float_node("ConvTranspose", [tensor("x", 1, 2, 4, 4), weights], (1, 1, 8, 8), **attributes)


@pytest.mark.parametrize(
    ("march", "kernel", "attributes", "code"),
    [
        ("bayes-e", 14, {"strides": [14, 1], "pads": [7, 0, 7, 0], "output_padding": [1, 0]}, None),
        ("bayes-e", 15, {}, Code.KERNEL),
        ("bayes-e", 1, {"strides": [2, 2]}, Code.DECONVOLUTION_PIXEL),
        ("bernoulli2", 1, {"strides": [2, 2]}, Code.DECONVOLUTION_PIXEL),
        ("bayes-e", 2, {"strides": [1, 1]}, None),
        ("bernoulli2", 2, {"strides": [2, 1]}, Code.DECONVOLUTION_STRIDE),
        ("bayes-e", 2, {"strides": [1, 15]}, Code.STRIDE),
        ("bernoulli2", 8, {"strides": [8, 8]}, None),
        ("bernoulli2", 2, {"strides": [10, 8]}, Code.STRIDE),
        ("bernoulli2", 3, {"strides": [3, 2]}, Code.DECONVOLUTION_STRIDE),
        ("bayes-e", 3, {"strides": [3, 2]}, None),
        ("bayes-e", 2, {"strides": [2, 4]}, Code.DECONVOLUTION_GAPS),
        ("bayes-e", 2, {"pads": [0, 0, 8, 0]}, Code.PADDING),
        ("bayes-e", 2, {"output_padding": [2, 0]}, Code.OUTPUT_PADDING),
        ("bayes-e", 2, {"dilations": [1, 2]}, Code.DILATION),
    ],
)
def test_sizes_up_to_the_limits_of_the_march(
    march: str, kernel: int, attributes: dict[str, Any], code: Code | None
) -> None:
    assert refused(ConvTransposeRule(), deconv(kernel, kernel, **attributes), march) is code


def test_weights_are_constants_and_a_sum_and_an_activation_join() -> None:
    x, rule, march = tensor("x", 1, 2, 4, 4), ConvTransposeRule(), load_chip("bayes-e")
    assert refused(rule, float_node("ConvTranspose", [x, tensor("w", 2, 1, 2, 2)], (1,))) is Code.NOT_CONSTANT
    line = float_node("ConvTranspose", [tensor("x", 1, 2, 4), constant("w", np.ones((2, 1, 2)))], (1,))
    assert refused(rule, line) is Code.DECONVOLUTION_2D
    head = deconv()
    relu = float_node("Relu", [head.outputs[0]], (1, 1, 8, 8))
    sizes = ((1, 1, 8, 8), (1, 1, 1, 8))
    added, broadcast = (float_node("Add", [head.outputs[0], tensor("e", *size)], (1, 1, 8, 8)) for size in sizes)
    found = [
        rule.absorbs([head], relu, march),
        rule.absorbs([head, relu], relu, march),
        rule.absorbs([head, relu], added, march),
        rule.absorbs([head], added, march),
        rule.absorbs([head, added], relu, march),
        rule.absorbs([head, added], added, march),
        rule.absorbs([head], broadcast, march),
    ]
    assert found == [True, False, False, True, True, False, False]
    assert dict(rule.weights(head)) == {1: 1}


def test_integers_follow_from_scales() -> None:
    recorder = Recorder(x=scaled(0.5), w=scaled(1), y=scaled(0.5))
    ConvTransposeRule().lower([deconv()], recorder)
    (made,) = recorder.nodes
    assert made.inputs == ["x NHWC", "n_w_quantized", "n_rounding_bias_quantized"]
    assert recorder.constants["n_w_quantized"].shape == (2, 2, 1, 1)
    assert recorder.constants["n_rounding_bias_quantized"].tolist() == [1]
    names = ("accu_right_shift", "y_quant_scale", "y_right_shift", "b_left_shift", "use_bias")
    assert [made.attributes[name] for name in names] == [[0], [1 << 14], [14], [0], 1]


def test_an_int16_result_is_requantised_from_int8() -> None:
    output = scaled(0.5 * 127 / 32767, qtype="int16")
    recorder = Recorder(x=scaled(0.5), w=scaled(1), y=output)
    ConvTransposeRule().lower([deconv()], recorder)
    (made,) = recorder.nodes
    assert (made.bits, made.scale) == (8, pytest.approx([0.5]))
    assert recorder.forms["y"].bits == 16
