"""Depthwise 1x1 convolutions of weight 1: how bernoulli2 adds maps and changes scales (reference/arithmetic.md 2.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.ir import Calibration
from engine.ops.core.base import Lowering, Quantized
from engine.ops.core.derive import convolution_integers, requantized_output

UNIT_CONV = "UNIT_CONV_FOR_"
"""Start of the name of such a convolution; the node or tensor that it stands for follows."""


def unit_convolution(
    name: str, channels: int, x: Quantized, output: Calibration, lowering: Lowering
) -> tuple[list[ir.Value], Mapping[str, Any]]:
    """Inputs and attributes of the HzSQuantizedConv that requantises ``x``.

    Args:
        name: the convolution's.
        channels: of ``x``.
        x: NHWC map.
        output: what the result is requantised to.
        lowering: holds the constants.
    """
    thresholds = np.ones(channels, np.float32)
    integers = convolution_integers(
        np.ones((channels, 1, 1, 1), np.float32),
        thresholds,
        None,
        x.scale,
        output.scales,
        output.bits,
        bias_bits=lowering.march.bias_bits,
    )
    weight, bias = (name.replace("CONV", part, 1) for part in ("WEIGHT", "BIAS"))
    inputs = [
        x.value,
        lowering.initializer(f"{name}_{weight}_quantized", integers.weights.transpose(0, 2, 3, 1)),
        lowering.initializer(f"{name}_{bias}_quantized", integers.bias),
        lowering.initializer(f"{name}_{bias}_b_scale", integers.bias_shift),
    ]
    attributes = {
        "dilations": [1, 1],
        "kernel_shape": [1, 1],
        "pads": [0, 0, 0, 0],
        "strides": [1, 1],
        "group": channels,
        "use_bias": 1,
        **requantized_output(integers, output.bits),
    }
    return inputs, attributes
