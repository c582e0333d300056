"""Models of quantisation-aware training, as PyTorch and TensorFlow export them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.config import Config, parse_config
from engine.convert import convert
from engine.errors import ConfigError, UnsupportedError
from engine.frontend.prepared import given_thresholds, given_types
from engine.frontend.trained import take_out_quantization
from engine.ir import calibration_nodes, read_calibration
from engine.simulate import Session
from tests.engine.frontend.networks import network

SCALE_X, SCALE_Y = 0.05, 0.125
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.integers(-127, 128, (4, 3, 3, 3), np.int8)
WEIGHT[:, 0, 0, 0] = 127  # so that the largest weight of a channel has the largest integer
SCALES = np.array([0.01, 0.02, 0.005, 0.04], np.float32)
BIAS = RANDOM.integers(-400, 400, 4).astype(np.int32)


def qdq(name: str, source: str, scale: str, zero: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [source, scale, zero], [f"{name}_q"], f"{name}_q", **attributes),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_dq"], f"{name}_dq", **attributes),
    ]


def trained(zero: NDArray[Any] | None = None, float_weight: bool = False) -> onnx.ModelProto:
    """Conv and Relu between quantised tensors; weights int8 per channel, or floats behind a pair of their own."""
    nodes = qdq("x", "x", "sx", "zx")
    if float_weight:
        nodes += qdq("w", "w", "sw", "zw", axis=0)
    else:
        nodes.append(helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["w_dq"], "w_dq", axis=0))
    nodes += [
        helper.make_node("DequantizeLinear", ["b", "sb"], ["b_dq"], "b_dq", axis=0),
        helper.make_node("Conv", ["x_dq", "w_dq", "b_dq"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        *qdq("r", "r", "sy", "zy"),
        helper.make_node("MaxPool", ["r_dq"], ["y"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    constants = {
        "sx": np.float32(SCALE_X),
        "zx": np.int8(0) if zero is None else zero,
        "sy": np.float32(SCALE_Y),
        "zy": np.int8(0),
        "w": (WEIGHT * SCALES.reshape(-1, 1, 1, 1)).astype(np.float32) if float_weight else WEIGHT,
        "sw": SCALES,
        "zw": np.zeros(4, np.int8),
        "b": BIAS,
        "sb": (SCALES * np.float32(SCALE_X)).astype(np.float32),
    }
    return network(
        nodes, {"x": (1, 3, 8, 8)}, ["y"], {name: np.asarray(array) for name, array in constants.items()}, 13, 8
    )


@pytest.mark.parametrize("float_weight", [False, True])
def test_scales_become_thresholds_and_integers_the_floats_that_they_stand_for(float_weight: bool) -> None:
    model = ir.from_proto(trained(float_weight=float_weight))
    take_out_quantization(model)
    assert [node.op_type for node in model.graph] == ["Conv", "Relu", "MaxPool"]
    given = given_thresholds(model)
    assert given["x"] == [pytest.approx(127 * SCALE_X)]
    assert given["r"] == [pytest.approx(127 * SCALE_Y)]
    assert given["w_dq"] == pytest.approx(127 * SCALES)
    assert set(given) == {"x", "r", "w_dq"}
    weight = model.graph[0].inputs[1].const_value
    np.testing.assert_allclose(weight.numpy(), WEIGHT * SCALES.reshape(-1, 1, 1, 1), rtol=1e-6)
    np.testing.assert_allclose(model.graph[0].inputs[2].const_value.numpy(), BIAS * SCALES * SCALE_X, rtol=1e-6)


def config(folder: Path, kind: str = "load", **inputs: str) -> Config:
    return parse_config(
        {
            "model_parameters": {
                "onnx_model": str(folder / "net.onnx"),
                "march": "bayes-e",
                "output_model_file_prefix": "net",
                "working_dir": str(folder / "out"),
            },
            "input_parameters": {
                "input_type_train": "featuremap",
                "input_layout_train": "NCHW",
                "input_type_rt": "featuremap",
                **inputs,
            },
            "calibration_parameters": {"calibration_type": kind},
        }
    )


def test_the_converted_model_computes_what_was_trained(tmp_path: Path) -> None:
    proto = trained()
    onnx.save(proto, tmp_path / "net.onnx")
    result = convert(config(tmp_path))
    found = [read_calibration(node) for node in calibration_nodes(result.models["calibrated"])]
    assert any(np.allclose(each.scales, SCALE_X) for each in found)
    assert any(each.scales.size == 4 and np.allclose(each.scales, SCALES) for each in found)
    x = RANDOM.normal(size=(1, 3, 8, 8)).astype(np.float32) * 2
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    (name,) = [info.name for info in Session(result.models["quantized"]).outputs]
    actual = Session(result.models["quantized"]).run({"x": x})[name]
    # the last convolution keeps its int32 result: what the training rounds and saturates at the end is exact here
    assert np.abs(np.minimum(actual, 127 * SCALE_Y) - expected).max() <= SCALE_Y / 2 + 1e-5


@pytest.mark.parametrize(
    ("zero", "threshold", "kind"),
    [(np.uint8(0), 255, "uint8"), (np.uint8(128), 127, None), (np.int8(0), 127, None)],
)
def test_integers_of_the_bpu(zero: Any, threshold: int, kind: str | None) -> None:
    model = ir.from_proto(trained(zero))
    take_out_quantization(model)
    assert given_thresholds(model)["x"] == [pytest.approx(threshold * SCALE_X)]
    assert given_types(model).get("x") == kind


@pytest.mark.parametrize("zero", [np.uint8(37), np.int8(5)])
def test_zero_points_are_refused_by_node(zero: Any) -> None:
    with pytest.raises(UnsupportedError, match=rf"node x_q \(QuantizeLinear\): .* with zero point {int(zero)}"):
        take_out_quantization(ir.from_proto(trained(zero)))


def test_halves_of_a_pair_that_differ_are_refused() -> None:
    proto = trained()
    node = next(node for node in proto.graph.node if node.name == "x_dq")
    node.input[1] = "sy"
    with pytest.raises(UnsupportedError, match=r"node x_dq .* its scale is not that of the QuantizeLinear before it"):
        take_out_quantization(ir.from_proto(proto))


def test_activations_have_scales_along_channels_only() -> None:
    proto = trained()
    for node in proto.graph.node:
        if node.name in ("x_q", "x_dq"):
            node.input[1:] = ["sw", "zw"]
            node.attribute.append(helper.make_attribute("axis", 2))
    with pytest.raises(UnsupportedError, match=r"node x_q .* scales along axis 2; a tensor has one scale"):
        take_out_quantization(ir.from_proto(proto))


def test_scales_along_another_axis_of_a_weight_give_the_floats_alone() -> None:
    proto = trained()
    node = next(node for node in proto.graph.node if node.name == "w_dq")
    node.attribute[0].i = 1
    node.input[1:] = ["s1", "z1"]
    scales = np.array([0.01, 0.02, 0.03], np.float32)
    proto.graph.initializer.extend(
        [numpy_helper.from_array(scales, "s1"), numpy_helper.from_array(np.zeros(3, np.int8), "z1")]
    )
    model = ir.from_proto(proto)
    take_out_quantization(model)
    assert "w_dq" not in given_thresholds(model)
    found = model.graph[0].inputs[1].const_value.numpy()
    np.testing.assert_allclose(found, WEIGHT * scales.reshape(1, 3, 1, 1), rtol=1e-6)


def test_a_scale_that_is_computed_is_refused() -> None:
    proto = trained()
    proto.graph.initializer.remove(next(item for item in proto.graph.initializer if item.name == "sx"))
    proto.graph.input.append(helper.make_tensor_value_info("sx", TensorProto.FLOAT, ()))
    with pytest.raises(
        UnsupportedError, match=r"node x_q \(QuantizeLinear\): its scale and zero point must be constants"
    ):
        take_out_quantization(ir.from_proto(proto))


def test_outputs_keep_their_names() -> None:
    proto = trained()
    proto.graph.node.extend(qdq("y", "y", "sy", "zy"))
    proto.graph.output[0].name = "y_dq"
    model = ir.from_proto(proto)
    take_out_quantization(model)
    assert [value.name for value in model.graph.outputs] == ["y_dq"]
    assert given_thresholds(model)["y_dq"] == [pytest.approx(127 * SCALE_Y)]


def test_other_calibration_types_refuse_as_the_original_does(tmp_path: Path) -> None:
    onnx.save(trained(), tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match=r"HorizonRT not support .* QuantizeLinear; calibration_type load"):
        convert(config(tmp_path, "skip"))
    onnx.save(trained(np.uint8(37)), tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match="zero point 37"):
        convert(config(tmp_path))


def test_a_calibrated_file_of_an_earlier_conversion_is_taken(tmp_path: Path) -> None:
    images = {"input_type_train": "rgb", "input_type_rt": "nv12", "norm_type": "data_mean", "mean_value": "128"}
    onnx.save(trained(), tmp_path / "net.onnx")
    first = convert(config(tmp_path, **images))
    (tmp_path / "net.onnx").write_bytes(first.files["calibrated"].read_bytes())
    second = convert(config(tmp_path, **images))
    x = RANDOM.integers(-128, 128, (1, 8, 8, 3)).astype(np.int8)
    found = [Session(result.models["quantized"]) for result in (first, second)]
    values = [session.run({"x": x})[session.outputs[0].name] for session in found]
    np.testing.assert_array_equal(values[0], values[1])
    with pytest.raises(ConfigError, match="the model brings HzPreprocess for x: give input_type_train"):
        convert(config(tmp_path))
