"""Integers of convolutions: roundings, the least ratio, biases, sums."""

from __future__ import annotations

import numpy as np
import pytest

from engine.chips import load_chip
from engine.ops.core.derive import (
    BIAS_LIMIT,
    Integers,
    convolution_integers,
    fold_input_scales,
    fused_sum,
    quantize_weights,
    requantized_output,
    weight_scales,
    with_offsets,
)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def pointwise(
    weight: float = 1.0,
    threshold: float = 127.0,
    bias: float | None = None,
    output: float | None = 1.0,
    bits: int = 8,
    bias_bits: int = 32,
    x: float = 1.0,
    summand: float | None = None,
) -> Integers:
    """One weight of one channel."""
    return convolution_integers(
        floats(weight).reshape(1, 1, 1, 1),
        floats(threshold),
        None if bias is None else floats(bias),
        floats(x),
        None if output is None else floats(output),
        bits,
        bias_bits=bias_bits,
        summand_scale=None if summand is None else floats(summand),
    )


def test_half_is_rounded_away_from_zero_and_clipped() -> None:
    weights = floats(0.5, -0.5, 1.5, 200, -128.4, -200).reshape(1, -1)
    assert quantize_weights(weights, floats(1)).ravel().tolist() == [1, -1, 2, 127, -128, -128]
    by_column = quantize_weights(floats(2, 2, 2, 2).reshape(2, 2), floats(1, 2), axis=1)
    assert by_column.tolist() == [[2, 1], [2, 1]]
    assert weight_scales(floats(127, 254)).tolist() == [1.0, 2.0]


def test_the_quotient_of_a_weight_is_float64() -> None:
    """It is 2.4999999; of float32 it would be 2.5, which rounds up."""
    weight, scale = np.float32(0.045396339148283005), np.float32(0.01815853640437126)
    assert weight / scale == np.float32(2.5)
    assert quantize_weights(np.array([[weight]]), np.array([scale])).item() == 2


@pytest.mark.parametrize(("bits", "least"), [(8, 2.0**-23), (16, 2.0**-15), (None, 2.0**-24)])
def test_weights_that_would_need_a_smaller_ratio_are_widened(bits: int | None, least: float) -> None:
    output, width = (None, 32) if bits is None else (1.0, bits)
    kept = pointwise(weight=127 * least, threshold=127 * least, output=output, bits=width)
    widened = pointwise(weight=127 * least, threshold=127 * least / 2, output=output, bits=width)
    assert kept.accumulator_scale.tolist() == widened.accumulator_scale.tolist() == [least]
    assert kept.weights.item() == widened.weights.item() == 127
    small = pointwise(weight=10 * least, threshold=10 * least, output=output, bits=width)
    assert (small.accumulator_scale.tolist(), small.weights.item()) == ([least], 10)


@pytest.mark.parametrize(("bits", "summand", "least"), [(8, 1.0, 2.0**-22), (16, 258.0, 258 * 2.0**-14)])
def test_a_summand_leaves_half_as_small_a_ratio_to_its_own_scale(bits: int, summand: float, least: float) -> None:
    """The channels of GRUs whose weights are zero: of int8 in ``crnn_gru``, of int16 in ``steps``."""
    dead = pointwise(weight=0.0, threshold=float(np.finfo(np.float32).tiny), summand=summand, bits=bits)
    assert dead.accumulator_scale.tolist() == [least]
    assert dead.bias.tolist() == [np.rint(0.5 / least)]


def test_the_bias_holds_half_an_output_unit() -> None:
    """Ratio 1/8: half a unit is 4 accumulator units; of a tail there is none."""
    assert pointwise(bias=2.5, output=8.0).bias.tolist() == [3 + 4]
    assert pointwise(bias=-2.5, output=8.0).bias.tolist() == [-3 + 4]
    assert pointwise(bias=2.5, output=None).bias.tolist() == [3]
    assert pointwise(output=8.0).bias.tolist() == [4]


def test_biases_are_limited_and_split_where_they_have_16_bits() -> None:
    assert pointwise(bias=2.0**31, output=None).bias.tolist() == [BIAS_LIMIT - 1]
    assert pointwise(bias=-(2.0**31), output=None).bias.tolist() == [-BIAS_LIMIT]
    split = pointwise(bias=65537.0, output=None, bias_bits=16)
    assert (split.bias.tolist(), split.bias_shift.tolist()) == ([16384], [2])
    whole = pointwise(bias=65537.0, output=None)
    assert (whole.bias.tolist(), whole.bias_shift.tolist()) == ([65537], [0])


def test_one_threshold_holds_for_all_channels() -> None:
    found = convolution_integers(
        np.ones((2, 1, 1, 1), np.float32), floats(127), None, floats(1), floats(1), 8, bias_bits=32
    )
    assert found.accumulator_scale.tolist() == [1.0, 1.0]


def test_offsets_are_made_up_for_by_the_bias() -> None:
    """Weights 3 and -1 and an offset of 128: 256; ratio 1/8 of an output offset of 128: 1024; 128 x 5 << 1: 1280."""
    weights = floats(3, -1).reshape(1, 2, 1, 1)
    integers = convolution_integers(weights, floats(127), None, floats(1), floats(8), 8, bias_bits=32)
    unchanged = with_offsets(integers, {}, 0, 0, 0)
    changes = [
        with_offsets(integers, {}, 128, 0, 0).bias - unchanged.bias,
        with_offsets(integers, {}, 0, 128, 0).bias - unchanged.bias,
        with_offsets(integers, {"e_scale": [5], "e_shift": [1]}, 0, 0, 128).bias - unchanged.bias,
    ]
    assert [int(change[0]) for change in changes] == [256, -1024, 1280]


def test_weights_take_over_the_scales_of_input_channels() -> None:
    weights = np.ones((2, 2, 1, 1), np.float32)
    folded, thresholds, scale = fold_input_scales(weights, floats(1, 1), floats(0.5, 0.125), 1)
    assert (folded[:, :, 0, 0].tolist(), thresholds.tolist(), scale.tolist()) == ([[1, 0.25]] * 2, [1, 1], [0.5])
    grouped, thresholds, _ = fold_input_scales(np.ones((2, 1, 1, 1), np.float32), floats(1, 1), floats(0.5, 0.125), 2)
    assert (grouped.ravel().tolist(), thresholds.tolist()) == ([1, 0.25], [1, 0.25])
    nothing, thresholds, _ = fold_input_scales(np.zeros((2, 2, 1, 1), np.float32), floats(3, 4), floats(0.5, 1), 1)
    assert (nothing.any(), thresholds.tolist()) == (False, [3, 4])
    same = fold_input_scales(weights, floats(1, 1), floats(0.5), 1)
    assert same[0] is weights


def test_a_fused_sum_shifts_right_where_the_march_can() -> None:
    ratio = floats(3), floats(1, 2, 2**16)
    found = fused_sum(*ratio, load_chip("bayes-e"))
    assert found == {"e_scale": [24576] * 3, "e_shift": [-13, -14, -29]}
    assert fused_sum(floats(2.0**16), floats(1), load_chip("bernoulli2")) == {"e_scale": [16384], "e_shift": [2]}
    assert fused_sum(*ratio, load_chip("bernoulli2")) == {"e_scale": [3, 2, 0], "e_shift": [0, 0, 0]}


def test_the_output_stage_of_a_tail_is_the_accumulator() -> None:
    tail = requantized_output(pointwise(output=None), 32)
    assert tail == {"output_bit": 32, "high_precision_output": 1, "data_format": "NHWC"}
    narrow = requantized_output(pointwise(output=2.0), 8)
    assert (narrow["output_bit"], narrow["high_precision_output"]) == (8, 0)
    assert (narrow["scale"], narrow["right_shift"], narrow["out_shift"]) == ([16384], [0], [15])
