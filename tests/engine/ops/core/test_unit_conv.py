"""Convolutions of weight 1 that rescale a map."""

from __future__ import annotations

import onnx_ir as ir

from engine.ops.core.base import Quantized
from engine.ops.core.unit_conv import unit_convolution
from tests.engine.ops.operators import Recorder, scaled


def quantized(name: str, scale: float) -> Quantized:
    return Quantized(ir.Value(name=name), scaled(scale).scales, 8)


def test_a_weight_of_one_per_channel() -> None:
    recorder = Recorder("bernoulli2")
    inputs, attributes = unit_convolution("UNIT_CONV_FOR_n", 2, quantized("x", 0.5), scaled(0.25), recorder)
    parts = ("UNIT_WEIGHT_FOR_n_quantized", "UNIT_BIAS_FOR_n_quantized", "UNIT_BIAS_FOR_n_b_scale")
    names = ["x", *(f"UNIT_CONV_FOR_n_{part}" for part in parts)]
    assert [value.name for value in inputs] == names
    assert recorder.constants[names[1]].tolist() == [[[[127]]]] * 2
    assert (attributes["group"], attributes["kernel_shape"], attributes["use_bias"]) == (2, [1, 1], 1)
    assert "weight_thresholds" not in attributes
    gain = attributes["scale"][0] * 2.0 ** -(attributes["right_shift"][0] + attributes["out_shift"][0])
    assert abs(gain * 127 - 2) < 2.0**-13
    assert "use_sumin" not in attributes
