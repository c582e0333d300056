"""Behaviour of single operators that is easy to get wrong, with results worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.ops.registry import operator, read_attributes
from tests.engine.simulate.models import node_model

Array = NDArray[Any]


def evaluate(op_type: str, inputs: list[Array], **attributes: Any) -> Array:
    """The reference of one operator, attributes read from a node as in a file."""
    node = node_model(op_type, inputs, attributes).graph[0]
    (result,) = operator(op_type).reference(inputs, read_attributes(node))
    return result


def pointwise(x: list[int], bias: int = 0, **attributes: Any) -> list[int]:
    """A convolution of one channel with weight 1."""
    image = np.array(x, np.int8).reshape(1, 1, -1, 1)
    b_scale = np.array([attributes.pop("b_scale", 0)], np.int8)
    constants = [np.ones((1, 1, 1, 1), np.int8), np.array([bias], np.int32), b_scale]
    return [
        int(v) for v in evaluate("HzSQuantizedConv", [image, *constants], kernel_shape=[1, 1], **attributes).ravel()
    ]


def test_convolution_floors_twice() -> None:
    assert pointwise([-3, -1, 1, 3], right_shift=[1], scale=[3], out_shift=[1]) == [-3, -2, 0, 1]


def test_convolution_saturates_to_16_bits_before_scaling() -> None:
    assert pointwise([1], bias=10**6, right_shift=[0], scale=[1], out_shift=[10]) == [31]


def test_negative_bias_scale_is_ignored() -> None:
    assert pointwise([0], bias=5, b_scale=-3) == [5]
    assert pointwise([0], bias=5, b_scale=3) == [40]


def test_convolution_without_bias() -> None:
    x, weight = np.array([-3, 4], np.int8).reshape(1, 1, 2, 1), np.full((1, 1, 1, 1), 2, np.int8)
    wide = {"kernel_shape": [1, 1], "output_bit": 32, "high_precision_output": 1, "use_bias": 0}
    assert evaluate("HzSQuantizedConv", [x, weight], **wide).ravel().tolist() == [-6, 8]
    sums = {"use_sumin": 1, "e_scale": [1], "e_shift": [0]}
    assert evaluate("HzSQuantizedConv", [x, weight, x], **wide, **sums).ravel().tolist() == [-9, 12]


def test_inputs_must_be_those_that_the_attributes_speak_of() -> None:
    x, weight, bias = np.zeros((1, 1, 1, 1), np.int8), np.ones((1, 1, 1, 1), np.int8), np.ones(1, np.int32)
    with pytest.raises(ValueError, match="2 inputs; use_bias 1 and use_sumin 0 need 4"):
        evaluate("HzSQuantizedConv", [x, weight], kernel_shape=[1, 1])
    with pytest.raises(ValueError, match="4 inputs; use_bias 0 and use_sumin 0 need 2"):
        evaluate("HzSQuantizedConv", [x, weight, bias, bias.astype(np.int8)], kernel_shape=[1, 1], use_bias=0)
    one = {"accu_right_shift": [0], "y_quant_scale": [1], "y_right_shift": [0], "kernel_shape": [1, 1]}
    with pytest.raises(ValueError, match="3 inputs; use_bias 0 needs 2"):
        evaluate("HzSQuantizedConvTranspose", [x, weight, bias], use_bias=0, **one)


def test_taps_of_a_dilated_transposed_convolution_lie_apart() -> None:
    x, weight = np.array([1, 10], np.int8).reshape(1, 1, 2, 1), np.array([1, 2], np.int8).reshape(1, 1, 2, 1)
    shifts = {"accu_right_shift": [0], "y_quant_scale": [1], "y_right_shift": [0], "use_bias": 0}
    result = evaluate("HzSQuantizedConvTranspose", [x, weight], kernel_shape=[1, 2], dilations=[1, 3], **shifts)
    assert result.ravel().tolist() == [1, 10, 0, 2, 20]


def test_only_relu_is_an_activation() -> None:
    wide = {"output_bit": 32, "high_precision_output": 1}
    assert pointwise([-7, 7], activation="relu", **wide) == [0, 7]
    assert pointwise([-7, 7], activation="relu6", **wide) == [-7, 7]


def test_fused_sum_floors_a_right_shift() -> None:
    x = np.zeros((1, 1, 2, 1), np.int8)
    constants = [np.ones((1, 1, 1, 1), np.int8), np.zeros(1, np.int32), np.zeros(1, np.int8)]
    e = np.array([-1, 3], np.int8).reshape(1, 1, 2, 1)
    sums = {"kernel_shape": [1, 1], "use_sumin": 1, "e_scale": [3], "e_shift": [-1]}
    result = evaluate("HzSQuantizedConv", [x, *constants, e], output_bit=32, high_precision_output=1, **sums)
    assert result.ravel().tolist() == [-2, 4]


def test_index_above_127_wraps() -> None:
    x = np.zeros((1, 1, 1, 256), np.int8)
    x[..., 199] = 1
    assert evaluate("HzQuantizedArgMax", [x], axis=3).ravel().tolist() == [-57]


def test_first_of_equal_maxima_counts() -> None:
    assert evaluate("HzQuantizedArgMax", [np.array([[[[3, 5, 5]]]], np.int8)], axis=3).ravel().tolist() == [1]


def test_average_pool_has_the_gain_error_of_its_reciprocal() -> None:
    x = np.full((1, 3, 3, 1), 100, np.int8)
    assert evaluate("HzQuantizedAveragePool", [x], kernel_shape=[3, 3], scale=9).ravel().tolist() == [(56 * 900) >> 9]


def test_padding_never_wins_a_maximum() -> None:
    x = np.full((1, 1, 1, 1), -100, np.int16)
    assert evaluate("HzQuantizedMaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1]).ravel().tolist() == [-100]


def test_ceil_mode_keeps_a_last_window_that_starts_inside() -> None:
    x = np.arange(6, dtype=np.int8).reshape(1, 1, 6, 1)
    pool = {"kernel_shape": [1, 3], "strides": [1, 2]}
    assert evaluate("HzQuantizedMaxPool", [x], **pool).ravel().tolist() == [2, 4]
    assert evaluate("HzQuantizedMaxPool", [x], ceil_mode=1, **pool).ravel().tolist() == [2, 4, 5]


def test_what_does_not_fit_an_integer_becomes_its_minimum() -> None:
    x = np.array([0.5, 1.5, -0.5, 300, -300, 1e10, -1e10, np.inf, -np.inf, np.nan], np.float32).reshape(1, -1)
    result = evaluate("HzQuantize", [x, np.ones(1, np.float32)], bits=8)
    assert result.ravel().tolist() == [0, 2, 0, 127, -128, -128, -128, -128, -128, -128]


def test_subtraction_of_swapped_operands_has_a_negative_scale() -> None:
    x, e = np.array([[[[10]]]], np.int8), np.array([[[[4]]]], np.int8)
    common = {"x_shift": [1], "e_scale": [1], "output_right_shift": [1]}
    assert evaluate("HzSElementwiseSub", [x, e], output_scale=[1], **common).item() == 8
    assert evaluate("HzSElementwiseSub", [x, e], output_scale=[-1], **common).item() == -8


def test_rounding_method_of_the_last_shift() -> None:
    x, e = np.array([[[[3]]]], np.int8), np.array([[[[1]]]], np.int8)
    common = {"output_scale": [1], "output_right_shift": [1]}
    assert evaluate("HzSElementwiseMul", [x, e], **common).item() == 2
    assert evaluate("HzSElementwiseMul", [x, e], rounding_method="FLOOR", **common).item() == 1


def test_depth_to_space_and_back() -> None:
    x = np.arange(2 * 3 * 8, dtype=np.int8).reshape(1, 2, 3, 8)
    deep = evaluate("HzDepthToSpace", [x], blocksize=2, mode="DCR")
    assert deep.shape == (1, 4, 6, 2)
    np.testing.assert_array_equal(evaluate("HzSpaceToDepth", [deep], block_height=2, block_width=2), x)


def test_channel_shuffle() -> None:
    x = np.arange(6, dtype=np.int8).reshape(1, 1, 1, 6)
    assert evaluate("HzChannelShuffle", [x], group=2).ravel().tolist() == [0, 3, 1, 4, 2, 5]


def test_pad_modes() -> None:
    x = np.array([1, 2], np.int8).reshape(1, 1, 2, 1)
    pads = [0, 0, 1, 0, 0, 0, 2, 0]
    assert evaluate("HzPad", [x], pads=pads, value=7).ravel().tolist() == [7, 1, 2, 7, 7]
    assert evaluate("HzPad", [x, np.array([-128], np.int8)], pads=pads).ravel().tolist() == [-128, 1, 2, -128, -128]
    assert evaluate("HzPad", [x], pads=pads, mode="edge").ravel().tolist() == [1, 1, 2, 2, 2]
    with pytest.raises(UnsupportedError, match="mode is 'reflect'; allowed: constant, edge"):
        evaluate("HzPad", [x], pads=pads, mode="reflect")


def test_comparison_of_equal_scales() -> None:
    x, e = np.array([[-128, 3, 127]], np.int8), np.array([[127, 3, -128]], np.int8)
    assert evaluate("HzQuantizedComparison", [x, e], comparison="Equal").tolist() == [[0, 1, 0]]
    assert evaluate("HzQuantizedComparison", [x, e], comparison="Less").tolist() == [[1, 0, 0]]
    with pytest.raises(UnsupportedError, match="comparison is 'Near'; allowed: Equal, Greater"):
        evaluate("HzQuantizedComparison", [x, e], comparison="Near")


def test_wide_sums_are_not_requantised() -> None:
    x = np.full((1, 30, 30, 1), 127, np.int8)
    assert evaluate("HzSQuantizedGlobalAveragePool", [x], output_bit=32).ravel().tolist() == [900 * 127]
    assert evaluate("HzSQuantizedReduceSum", [x], output_bit=32, axis=1).ravel().tolist() == [30 * 127] * 30


def test_global_maximum() -> None:
    x = np.array([[1, -5], [3, -9]], np.int8).reshape(1, 2, 1, 2)
    assert evaluate("HzQuantizedGlobalMaxPool", [x]).ravel().tolist() == [3, -5]


def test_topk_of_equal_values_takes_the_first() -> None:
    x = np.array([[3, -128, 3, 127, -128]], np.int8)
    node = node_model("HzQuantizedTopK", [x], {"k": 3, "largest": 0}).graph[0]
    values, positions = operator("HzQuantizedTopK").reference([x], read_attributes(node))
    assert values.tolist() == [[-128, -128, 3]]
    assert positions.tolist() == [[1, 4, 0]]
