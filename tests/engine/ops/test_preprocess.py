"""Images: a 1x1 convolution of pixels minus 128."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ops.preprocess import PreprocessRule
from tests.engine.ops.operators import Recorder, constant, evaluate, float_node, int8, scaled, tensor


def test_channels_are_mixed_or_scaled_one_by_one() -> None:
    x = int8(1, 2, shape=(1, 1, 1, 2))
    bias = [np.array([1, -1], np.int32), np.zeros(2, np.int8)]
    wide = {"output_bit": 32, "high_precision_output": 1}
    mixed = evaluate("HzSQuantizedPreprocess", [x, int8(1, 2, 3, 4, shape=(2, 1, 1, 2)), *bias], **wide)
    assert mixed.ravel().tolist() == [6, 10]
    single = [x, int8(3, 4, shape=(2, 1, 1, 1)), *bias]
    apart = evaluate("HzSQuantizedPreprocess", single, channel_group=2, **wide)
    assert apart.ravel().tolist() == [4, 7]
    assert evaluate("HzSQuantizedPreprocess", single, channel_group=2).ravel().tolist() == [4, 7]
    floored = evaluate("HzSQuantizedPreprocess", single, channel_group=2, right_shift=[1], scale=[3], out_shift=[1])
    assert floored.ravel().tolist() == [3, 4]


def node(data_format: str = "NCHW") -> ir.Node:
    weight, bias = constant("w", np.ones((3, 1, 1, 1), np.float32)), constant("b", np.full(3, 2, np.float32))
    shape = (1, 3, 4, 4) if data_format == "NCHW" else (1, 4, 4, 3)
    attributes = {"input_type": "RGB_128", "channel_group": 3, "data_format": data_format}
    return float_node("HzPreprocess", [tensor("x", *shape), weight, bias], shape, **attributes)


def test_pixels_are_int8_as_they_are() -> None:
    assert PreprocessRule().fixed_thresholds(node(), "int8") == (127.0, None)
    assert dict(PreprocessRule().weights(node())) == {1: 0}
    assert PreprocessRule().int32_output


def test_integers_follow_from_scales() -> None:
    recorder = Recorder(x=scaled(1), w=scaled(1, 1, 1), y=scaled(1))
    PreprocessRule().lower([node()], recorder)
    (made,) = recorder.nodes
    assert (made.inputs, made.layout) == (["x NHWC", "n_w_quantized", "n_b_quantized", "n_b_b_scale"], "NHWC")
    assert [made.attributes[name] for name in ("channel_group", "input_type")] == [3, "RGB_128"]
    assert [made.attributes[name] for name in ("scale", "right_shift", "out_shift")] == [
        [1 << 14] * 3,
        [0] * 3,
        [14] * 3,
    ]
    assert recorder.constants["n_b_quantized"].tolist() == [3, 3, 3]
    tail = Recorder(x=scaled(1), w=scaled(1, 1, 1))
    PreprocessRule().lower([node("NHWC")], tail)
    assert (tail.nodes[0].bits, tail.nodes[0].scale, tail.nodes[0].layout) == (32, [1.0] * 3, "NCHW")
