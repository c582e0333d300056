"""How a convolution's integers follow from float weights and scales (reference/arithmetic.md 2.2 to 2.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.ops.core.fixed_point import (
    ACCUMULATOR_SHIFT_MAX,
    WIDE_SHIFT_MIN,
    Requantization,
    mantissa_and_shift,
    requantization,
    round_away,
    shift_left,
    split_bias,
)

if TYPE_CHECKING:
    from engine.chips import Chip

Float32 = NDArray[np.float32]
Array = NDArray[Any]

BIAS_LIMIT = 1 << 30
MIN_RATIO: Mapping[int, float] = {8: 2.0**-23, 16: 2.0**-15}
"""Smallest accumulator scale / output scale per output width; weights that would need a smaller one are widened."""
MIN_RATIO_OF_SUM: Mapping[int, float] = {8: 2.0**-22, 16: 2.0**-14}
"""Smallest accumulator scale / scale of a summand that joins the accumulator, per output width.

The first step of a GRU, where the state and so the weights are zero: 32 channels of ``crnn_gru``, and 24 of int8 and
int16 asked on three marches.
"""
MIN_TAIL_SCALE: Mapping[bool, float] = {True: 2.0**-23, False: 2.0**-24}
"""Smallest scale of an int32 accumulator that is dequantised, with a bias and without.

Without one, 20 channels of three conversions on bayes-e and bernoulli2, with int8 and int16 inputs.
"""


@dataclass(frozen=True)
class Integers:
    """The integers of one convolution.

    Attributes:
        weights: int8, the float weight's shape.
        exact_bias: whole numbers in float64, shape (channels,), not clipped; includes the rounding constant of a
            requantised output.
        bias_bits: 16 where the bias is stored in 16 bits with a left shift.
        accumulator_scale: float32, shape (channels,): value of one accumulator unit.
        requantization: multiplier and shifts; ``None`` for an int32 output.
    """

    weights: NDArray[np.int8]
    exact_bias: NDArray[np.float64]
    bias_bits: int
    accumulator_scale: Float32
    requantization: Requantization | None

    @property
    def bias(self) -> NDArray[np.int32]:
        """The bias as it is stored, shape (channels,)."""
        return self._stored[0].astype(np.int32)

    @property
    def bias_shift(self) -> NDArray[np.int8]:
        """Left shift of :attr:`bias`, shape (channels,)."""
        return self._stored[1].astype(np.int8)

    @property
    def _stored(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        clipped = np.clip(np.nan_to_num(self.exact_bias), -BIAS_LIMIT, BIAS_LIMIT - 1)
        if self.bias_bits == 16:
            return split_bias(clipped)
        return clipped.astype(np.int64), np.zeros(clipped.shape, np.int64)


def weight_scales(thresholds: Float32) -> Float32:
    """``float32(threshold / 127)`` per output channel."""
    return np.asarray(thresholds, np.float32) / np.float32(127)


def quantize_weights(weights: Array, scales: Array, axis: int = 0) -> NDArray[np.int8]:
    """``clip(away(w / scale), -128, 127)`` per channel of ``axis``.

    Weight and scale are float32, their quotient is float64: on EfficientNet-Lite0 a float32 quotient rounds 5 of 4.6
    million weights otherwise than the original (reference/arithmetic.md 2.2 says float32).

    Args:
        weights: float32, any shape.
        scales: float32, shape (channels,): float units per integer.
        axis: of the channels.
    """
    shape = [1] * weights.ndim
    shape[axis] = -1
    ratio = np.asarray(weights, np.float64) / np.asarray(scales, np.float64).reshape(shape)
    return np.clip(round_away(np.nan_to_num(ratio)), -128, 127).astype(np.int8)


def convolution_integers(
    weights: Array,
    thresholds: Float32,
    bias: Array | None,
    input_scale: Float32,
    output_scale: Float32 | None,
    output_bits: int,
    *,
    bias_bits: int,
    axis: int = 0,
    input_bits: int = 8,
    summand_scale: Float32 | None = None,
    output_threshold: Float32 | None = None,
) -> Integers:
    """Integers of a convolution (reference/arithmetic.md 2.3 with an output scale, 2.4 without).

    Args:
        weights: float32; ``axis`` is the output channel.
        thresholds: float32, shape (channels,) or (1,): weight thresholds.
        bias: float32, shape (channels,), or ``None``.
        input_scale: float32, shape (1,).
        output_scale: float32, shape (1,) or (channels,); ``None`` for an int32 output.
        output_bits: 8, 16 or 32.
        bias_bits: 16 where the bias is stored in 16 bits with a left shift.
        axis: output channel axis of ``weights``.
        input_bits: 8 or 16.
        summand_scale: of a tensor that is added to the accumulator, float32, shape (1,) or (channels,).
        output_threshold: float32, in the shape of ``output_scale``; ``None`` for the largest integer times that.
    """
    channels = weights.shape[axis]
    scales = np.broadcast_to(weight_scales(thresholds), (channels,))
    xs = np.float32(input_scale[0])
    if output_scale is None:
        least, floor = np.ones(1), MIN_TAIL_SCALE[bias is not None]
    else:
        least, floor = output_scale.astype(np.float64), MIN_RATIO[output_bits]
    smallest = floor * least
    if summand_scale is not None and output_scale is not None:
        smallest = np.maximum(smallest, MIN_RATIO_OF_SUM[output_bits] * summand_scale.astype(np.float64))
    clamped = (xs * scales).astype(np.float64) < smallest
    # The original derives the scale of widened weights first, so that float32 rounding enters twice.
    widened = np.where(clamped, smallest / np.float64(xs), scales).astype(np.float32)
    accumulator = (xs * widened).astype(np.float32)
    ratio = accumulator.astype(np.float64) / least
    wanted = round_away(
        np.zeros(channels) if bias is None else bias.astype(np.float64) / accumulator.astype(np.float64)
    )
    split = None
    if output_scale is not None:
        reach = None if output_threshold is None else output_threshold.astype(np.float64) / accumulator
        least_shift = WIDE_SHIFT_MIN if input_bits == 16 else 0
        split = requantization(ratio, output_bits, least_shift, ACCUMULATOR_SHIFT_MAX, reach)
        wanted = wanted + round_away(0.5 / ratio)
    return Integers(
        weights=quantize_weights(weights, widened, axis),
        exact_bias=wanted,
        bias_bits=bias_bits,
        accumulator_scale=accumulator,
        requantization=split,
    )


def with_offsets(integers: Integers, attributes: Mapping[str, Any], x: int, y: int, summand: int) -> Integers:
    """``integers`` with a bias that makes up for offsets (:attr:`engine.ir.Calibration.offset`).

    It rises by ``x`` times the sum of the weights and by what the summand adds for its offset, and falls by what the
    output stage makes ``y`` of. All of it is whole numbers, to the last integer those of the original in the 96
    convolutions of four networks with ``optimization: asymmetric``.

    Args:
        integers: weights have the output channel first.
        attributes: ``e_scale`` and ``e_shift`` where ``summand`` is not 0.
        x: offset of the input.
        y: offset of the output, which is requantised if it is not 0.
        summand: offset of what is added to the accumulator.
    """
    bias = integers.exact_bias + x * integers.weights.sum(axis=tuple(range(1, integers.weights.ndim)), dtype=np.int64)
    if y and (split := integers.requantization) is not None:
        bias = bias - np.floor(y * np.exp2(split.out_shift) / split.scale) * np.exp2(split.right_shift)
    if summand:
        bias = bias + shift_left(summand * np.asarray(attributes["e_scale"]), attributes["e_shift"])
    return replace(integers, exact_bias=bias)


def fold_input_scales(
    weights: Array, thresholds: Float32, input_scale: Float32, group: int
) -> tuple[Array, Float32, Float32]:
    """Weights that take over the differences between the input channels' scales.

    A convolution has one input scale; where calibration gave every channel its own, their ratio to the largest is a
    factor of the weights, whose thresholds follow.

    Args:
        weights: float32, shape (O, I / group, kh, kw).
        thresholds: float32, shape (O,).
        input_scale: float32, shape (1,) or (I,).
        group: convolution groups.

    Returns:
        Weights, thresholds, and the input scale of shape (1,).
    """
    if input_scale.size == 1:
        return weights, thresholds, input_scale
    largest = input_scale.max(keepdims=True)
    factors = (input_scale / largest).reshape(group, 1, -1, 1, 1)
    folded = (weights.reshape(group, -1, *weights.shape[1:]) * factors).reshape(weights.shape).astype(np.float32)
    magnitudes = np.abs(folded).reshape(len(folded), -1).max(axis=1)
    return folded, np.where(magnitudes == 0, thresholds, magnitudes).astype(np.float32), largest


def fused_sum(
    operand_scale: Float32, accumulator_scale: Float32, march: Chip, *, shifts_left: bool = False
) -> dict[str, list[int]]:
    """``e_scale`` and ``e_shift`` of a fused sum (reference/arithmetic.md 2.5).

    Args:
        operand_scale: of the operand that is added, float units per integer; one value or one per channel.
        accumulator_scale: of the convolution's accumulator, likewise.
        march: says whether the shift may be negative; where it may not, the scale is rounded half to even instead.
        shifts_left: of an operator whose shift may not be negative on any march: a transposed convolution (37 of 37
            channels asked on bayes-e).
    """
    ratio = operand_scale.astype(np.float64) / accumulator_scale.astype(np.float64)
    scale, shift = mantissa_and_shift(ratio)
    if shifts_left or not march.negative_e_shift:
        shift = np.maximum(shift, 0)
        scale = np.rint(ratio / np.exp2(shift)).astype(np.int64)
    return {"e_shift": shift.tolist(), "e_scale": scale.tolist()}


def requantized_output(integers: Integers, bits: int) -> dict[str, Any]:
    """Attributes of the output stage."""
    if integers.requantization is None:
        return {"output_bit": 32, "high_precision_output": 1, "data_format": "NHWC"}
    split = integers.requantization
    return {
        "output_bit": bits,
        "right_shift": split.right_shift.tolist(),
        "scale": split.scale.tolist(),
        "out_shift": split.out_shift.tolist(),
        "high_precision_output": 0,
        "data_format": "NHWC",
    }
