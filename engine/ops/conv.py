"""HzSQuantizedConv: 2-D convolution with fused bias, residual sum, requantisation and ReLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.fixed_point import saturate, shift_left, shift_right, to_type, wrap_int32
from engine.ops.schema import (
    ACTIVATION,
    DATA_FORMAT,
    DILATIONS,
    GROUP,
    KERNEL,
    OUTPUT_BIT,
    PADS,
    STRIDES,
    USE_BIAS,
    WEIGHT_THRESHOLDS,
    Schema,
    pad_spatial,
)


class Conv(QuantizedOperator):
    """Dense, grouped, depthwise and dilated convolutions; output int8, int16, or the int32 accumulator."""

    op_type = "HzSQuantizedConv"
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "dilations": DILATIONS,
        "group": GROUP,
        "activation": ACTIVATION,
        "use_bias": USE_BIAS,
        "use_sumin": Attribute("int", 0, "1: the last input is added to the accumulator"),
        "e_scale": Attribute("ints", (), "multiplier of the added input, per channel"),
        "e_shift": Attribute("ints", (), "left shift of that product, per channel; negative: right shift with floor"),
        "output_bit": OUTPUT_BIT,
        "high_precision_output": Attribute("int", 0, "1: the output is the int32 accumulator"),
        "right_shift": Attribute("ints", (0,), "accumulator bits dropped before saturation to 16 bits, per channel"),
        "scale": Attribute("ints", (1,), "requantisation multiplier, per channel"),
        "out_shift": Attribute("ints", (0,), "bits dropped from the product, per channel"),
        "weight_thresholds": WEIGHT_THRESHOLDS,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8/int16 NHWC, w int8 (O, kh, kw, I/g), bias int32, b_scale int8, and the sum input if fused.

        ARITHMETIC.md 1, HzSQuantizedConv.
        """
        x, w, bias, b_scale = (np.asarray(value) for value in inputs[:4])
        accumulator = convolve(x, w, attributes) + shifted_bias(bias, b_scale)
        if attributes["use_sumin"]:
            product = np.asarray(inputs[-1], np.int64) * attributes["e_scale"]
            accumulator = accumulator + shift_left(product, attributes["e_shift"])
        return (requantize_accumulator(wrap_int32(accumulator), attributes),)


def convolve(x: Array, w: Array, attributes: Attributes) -> NDArray[np.int64]:
    """Integer convolution of NHWC ``x`` with ``w`` (O, kh, kw, I/g), one kernel tap after the other; pads are 0."""
    x = pad_spatial(x, attributes["pads"], 0)
    out_channels, kernel_h, kernel_w, _ = w.shape
    group = attributes["group"]
    (stride_h, stride_w), (dilation_h, dilation_w) = attributes["strides"], attributes["dilations"]
    height = (x.shape[1] - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    width = (x.shape[2] - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    grouped_x = x.reshape(*x.shape[:3], group, -1).astype(np.int64)
    grouped_w = w.reshape(group, out_channels // group, kernel_h, kernel_w, -1).astype(np.int64)
    accumulator = np.zeros((x.shape[0], height, width, group, out_channels // group), np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            rows = slice(ky * dilation_h, ky * dilation_h + (height - 1) * stride_h + 1, stride_h)
            columns = slice(kx * dilation_w, kx * dilation_w + (width - 1) * stride_w + 1, stride_w)
            accumulator += np.einsum("bhwgi,goi->bhwgo", grouped_x[:, rows, columns], grouped_w[:, :, ky, kx])
    return accumulator.reshape(x.shape[0], height, width, out_channels)


def shifted_bias(bias: Array, b_scale: Array) -> NDArray[np.int64]:
    """``bias << b_scale`` per channel; a negative shift is ignored."""
    return shift_left(bias, np.maximum(b_scale.astype(np.int64), 0))


def requantize_accumulator(accumulator: NDArray[np.int64], attributes: Attributes) -> Array:
    """From the int32 accumulator to the output: floors only, the rounding constant is part of the bias."""
    relu = attributes["activation"] == "relu"
    if attributes["high_precision_output"] or attributes["output_bit"] == 32:
        return (np.maximum(accumulator, 0) if relu else accumulator).astype(np.int32)
    narrowed = saturate(shift_right(accumulator, attributes["right_shift"]), 16)
    y = shift_right(narrowed * attributes["scale"], attributes["out_shift"])
    return to_type(np.maximum(y, 0) if relu else y, attributes["output_bit"])
