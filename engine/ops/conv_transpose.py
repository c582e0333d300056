"""HzSQuantizedConvTranspose: transposed 2-D convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.ops.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.conv import shifted_bias
from engine.ops.fixed_point import saturate, shift_right, to_type, wrap_int32
from engine.ops.schema import ACTIVATION, DATA_FORMAT, GROUP, KERNEL, PADS, STRIDES, USE_BIAS, WEIGHT_THRESHOLDS, Schema


class ConvTranspose(QuantizedOperator):
    """Transposed convolution; the weights are not flipped; output int8."""

    op_type = "HzSQuantizedConvTranspose"
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "output_padding": Attribute("ints", (0, 0), "rows and columns added at the bottom and right"),
        "group": GROUP,
        "activation": ACTIVATION,
        "use_bias": USE_BIAS,
        "b_left_shift": Attribute("ints", (0,), "left shift of the 16-bit bias, per channel"),
        "accu_right_shift": Attribute("ints", doc="accumulator bits dropped before saturation to 16 bits, per channel"),
        "y_quant_scale": Attribute("ints", doc="requantisation multiplier, per channel"),
        "y_right_shift": Attribute("ints", doc="bits dropped from the product, per channel"),
        "weight_thresholds": WEIGHT_THRESHOLDS,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC, w int8 (I, kh, kw, O/g), bias int32 (ARITHMETIC.md 1, HzSQuantizedConvTranspose)."""
        x, w, bias = (np.asarray(value) for value in inputs)
        accumulator = wrap_int32(transposed_convolve(x, w, attributes) + shifted_bias(bias, attributes["b_left_shift"]))
        narrowed = saturate(shift_right(accumulator, attributes["accu_right_shift"]), 16)
        y = shift_right(narrowed * attributes["y_quant_scale"], attributes["y_right_shift"])
        return (to_type(np.maximum(y, 0) if attributes["activation"] == "relu" else y, 8),)


def transposed_convolve(x: Array, w: Array, attributes: Attributes) -> NDArray[np.int64]:
    """Scatter ``x[i, j] * w[:, ky, kx]`` to ``[i*s + ky, j*s + kx]``, then crop by the pads."""
    batch, height, width, channels = x.shape
    group, (stride_h, stride_w) = attributes["group"], attributes["strides"]
    _, kernel_h, kernel_w, group_out = w.shape
    top, left, bottom, right = (int(p) for p in attributes["pads"])
    extra_h, extra_w = (int(p) for p in attributes["output_padding"])
    full_h = (height - 1) * stride_h + kernel_h + extra_h
    full_w = (width - 1) * stride_w + kernel_w + extra_w
    full = np.zeros((batch, full_h, full_w, group, group_out), np.int64)
    grouped_x = x.reshape(batch, height, width, group, channels // group).astype(np.int64)
    grouped_w = w.reshape(group, channels // group, kernel_h, kernel_w, group_out).astype(np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            rows = slice(ky, ky + (height - 1) * stride_h + 1, stride_h)
            columns = slice(kx, kx + (width - 1) * stride_w + 1, stride_w)
            full[:, rows, columns] += np.einsum("bhwgi,gio->bhwgo", grouped_x, grouped_w[:, :, ky, kx])
    return full[:, top : full_h - bottom, left : full_w - right].reshape(
        batch, full_h - top - bottom, full_w - left - right, group * group_out
    )
