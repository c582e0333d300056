"""Conversions with ``node_info`` and its older forms, from the configuration to the integer model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper

from engine.config import parse_config
from engine.convert import ConversionResult, convert
from engine.ir import calibration_nodes, read_calibration
from tests.configurations import FEATUREMAP
from tests.engine.optimize.equivalence import build

SHAPE = (1, 4, 8, 8)


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    for index in range(4):
        rng.standard_normal(SHAPE, np.float32).tofile(tmp_path / "data" / f"{index}.bin")


def weight(outputs: int = 4, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((outputs, *(shape or (4, 1, 1))), np.float32)


def converted(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, NDArray[Any]],
    model: dict[str, Any] | None = None,
    calibration: dict[str, Any] | None = None,
    outputs: Sequence[str] = ("y",),
) -> ConversionResult:
    """The conversion of the network that takes ``x`` of :data:`SHAPE`."""
    ir.save(build(nodes, {"x": SHAPE}, list(outputs), constants), "m.onnx")
    groups = {name: dict(group) for name, group in FEATUREMAP.items()}
    groups["model_parameters"] |= model or {}
    groups["calibration_parameters"] |= calibration or {}
    return convert(parse_config(groups))


def data_types(result: ConversionResult) -> dict[str, str]:
    return {row.node: row.data_type for row in result.nodes}


@pytest.mark.parametrize(
    ("info", "width"),
    [({"ON": "BPU"}, "int8"), ({"ON": "BPU", "InputType": "int16"}, "int16"), ({"InputType": "int16"}, "int16")],
)
def test_a_softmax_runs_on_the_bpu_where_it_is_asked_for(info: dict[str, str], width: str) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Softmax", ["c"], ["y"], "softmax", axis=3),
    ]
    result = converted(nodes, {"w": weight()}, {"node_info": {"softmax": info}})
    asked = "ON" in info
    (row, *_) = [row for row in result.nodes if row.node.startswith("softmax")]
    assert (row.on, row.type) == (("BPU", "HzQuantizedReduceMax") if asked else ("CPU", "Softmax"))
    assert row.data_type == (width if asked else "float")
    assert [refusal.node for refusal in result.refusals] == ([] if asked else ["softmax"])
    assert all(row.cosine is not None and row.cosine > 0.98 for row in result.nodes)
    assert result.integer_outputs[0].distance.cosine > 0.999


@pytest.mark.parametrize("on", [None, "CPU"])
def test_int16_for_all_nodes_runs_every_softmax_on_the_bpu_that_is_not_asked_for_elsewhere(on: str | None) -> None:
    """As in five Softmaxes of four networks drawn, on bayes-e and bayes."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Softmax", ["c"], ["y"], "softmax", axis=3),
    ]
    asked = {"node_info": {"softmax": {"ON": on}}} if on else {}
    result = converted(nodes, {"w": weight()}, asked, {"optimization": "set_all_nodes_int16"})
    rows = [row for row in result.nodes if row.node.startswith("softmax")]
    assert [(row.on, row.type) for row in rows[:1]] == [("CPU", "Softmax") if on else ("BPU", "HzQuantizedReduceMax")]


@pytest.mark.parametrize(
    ("info", "width", "thresholds"),
    [
        ({}, "int8", {"s_sub": 5.644179821014404, "s_exp": 1.0, "s_reciprocal": 1.0, "s": 1.0}),
        ({"InputType": "int16", "OutputType": "int16"}, "int16", {"s_sub": 11.090324, "s_exp": 1.0}),
    ],
)
def test_the_parts_of_a_softmax_have_one_width_and_fixed_ranges(
    info: dict[str, str], width: str, thresholds: dict[str, float]
) -> None:
    """Its result is int8 where a product reads it (published logs of YOLOv13n, and of YOLOv10n and YOLO11n)."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Softmax", ["c"], ["s"], "softmax", axis=3),
        helper.make_node("MatMul", ["x", "s"], ["y"], "product"),
    ]
    result = converted(nodes, {"w": weight()}, {"node_info": {"softmax": {"ON": "BPU", **info}}})
    parts = [row for row in result.nodes if row.node.startswith("softmax")]
    assert ([row.data_type for row in parts], len(parts)) == ([width] * 6, 6)
    calibrations = {
        str(node.inputs[0].name): read_calibration(node) for node in calibration_nodes(result.models["calibrated"])
    }
    assert calibrations["s"].qtype == "int8"
    assert {name: calibrations[name].thresholds.tolist() for name in thresholds} == {
        name: pytest.approx([value]) for name, value in thresholds.items()
    }
    assert calibrations["s"].thresholds[0] == 1.0


def conv(source: str, target: str, constant: str = "w") -> onnx.NodeProto:
    return helper.make_node("Conv", [source, constant], [target], f"conv_{target}")


def integer_types(result: ConversionResult) -> dict[str, str]:
    """Type of every output in the quantised model, before it is dequantised."""
    found = {}
    for value in result.models["quantized"].graph.outputs:
        dequantize = value.producer()
        assert dequantize is not None
        assert dequantize.inputs[0] is not None
        found[str(value.name)] = str(dequantize.inputs[0].dtype).lower()
    return found


def test_an_output_without_int16_is_int8_and_right() -> None:
    nodes = [conv("x", "c"), helper.make_node("ConvTranspose", ["c", "t"], ["y"], "deconv", strides=[2, 2])]
    asked = {"optimization": "set_model_output_int16"}
    result = converted(nodes, {"w": weight(), "t": weight(4, 4, 2, 2)}, calibration=asked)
    (refusal,) = result.refusals
    assert (refusal.node, refusal.request) == ("deconv", "set_model_output_int16")
    assert "The output of Node(name:deconv, type:ConvTranspose) does not support data type: int16" in refusal.reason
    assert integer_types(result) == {"y": "int8"}
    assert result.integer_outputs[0].distance.cosine > 0.999


@pytest.mark.parametrize(("kind", "accumulator"), [("int8", "int32"), ("int16", "int16"), (None, "int32")])
def test_the_last_convolution_is_int16_on_request_and_never_int8(kind: str | None, accumulator: str) -> None:
    """The original ignores a request for int8 there: 4 of 4 asked (``width.int8-of-convolution``)."""
    info = {} if kind is None else {"node_info": {"conv_y": {"OutputType": kind}}}
    result = converted([conv("x", "y")], {"w": weight()}, info)
    assert integer_types(result) == {"y": accumulator}
    assert [refusal.request for refusal in result.refusals] == (["OutputType: int8"] if kind == "int8" else [])


def test_set_model_output_int8_makes_the_last_convolution_int8() -> None:
    result = converted([conv("x", "y")], {"w": weight()}, calibration={"optimization": "set_model_output_int8"})
    assert integer_types(result) == {"y": "int8"}
    assert result.refusals == ()


@pytest.mark.parametrize("kind", ["int8", None])
def test_a_result_that_would_be_int16_is_int8_on_request(kind: str | None) -> None:
    nodes = [conv("x", "c"), helper.make_node("Sigmoid", ["c"], ["y"], "sigmoid")]
    info = {} if kind is None else {"node_info": {"sigmoid": {"OutputType": kind}}}
    assert integer_types(converted(nodes, {"w": weight()}, info)) == {"y": kind or "int16"}


def test_types_that_contradict_are_reported() -> None:
    info = {"conv_c": {"OutputType": "int16"}, "conv_y": {"InputType": "int8"}}
    result = converted([conv("x", "c"), conv("c", "y")], {"w": weight()}, {"node_info": info})
    (refusal,) = result.refusals
    assert (refusal.node, refusal.request) == ("conv_y", "InputType0: int8")
    assert data_types(result)["conv_y"] == "int16"


def test_the_log_says_who_reads_int16_and_who_cannot(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [conv("x", "c"), conv("c", "y"), helper.make_node("GlobalAveragePool", ["y"], ["z"], "pool")]
    info = {"conv_c": {"OutputType": "int16"}, "conv_y": {"OutputType": "int16"}}
    with caplog.at_level("INFO", "engine.convert"):
        converted(nodes, {"w": weight()}, {"node_info": info}, outputs=["z"])
    assert "The input of node conv_y are set to : int16" in caplog.messages
    refused = "The input0 of Node(name:pool, type:GlobalAveragePool) does not support data type: int16"
    assert any(refused in message and "set back to int8" in message for message in caplog.messages)


@pytest.mark.parametrize("reader", ["none", "CPU", "BPU"])
def test_a_channel_shuffle_on_the_cpu_moves_channels(reader: str) -> None:
    nodes = [
        conv("x", "c"),
        helper.make_node("Reshape", ["c", "split"], ["s"], "split"),
        helper.make_node("Transpose", ["s"], ["t"], "swap", perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["t", "joined"], ["u" if reader != "none" else "y"], "join"),
        *([conv("u", "y")] if reader != "none" else []),
    ]
    constants = {"w": weight(), "split": np.asarray([1, 2, 2, 8, 8]), "joined": np.asarray(SHAPE)}
    info = {"node_info": {"conv_y": {"ON": reader}}} if reader != "none" else {}
    result = converted(nodes, constants, info)
    assert ("HzChannelShuffle", "BPU" if reader == "BPU" else "CPU") in {(row.type, row.on) for row in result.nodes}
    assert result.integer_outputs[0].distance.cosine > 0.999
