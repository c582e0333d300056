"""``ptqlab check``: what it prints, what it refuses, and that it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from engine.cli.lab.check import as_dict
from engine.errors import ConfigError, ModelError, PtqlabError
from harness.cli.main import app
from tests.engine.cli.lab.commands import MARCHES, model, printed
from tests.engine.convert.conftest import Converted


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("march", MARCHES)
def test_check_lists_nodes_and_operators(march: str, tmp_path: Path) -> None:
    found = printed("check", model("mnist_lenet"), "--march", march)
    assert set(found) == {"nodes", "quantized_graph"}
    keys = {"node", "on", "subgraph", "type", "dtype", "reason", "unmeasured", "quirks"}
    assert all(set(node) == keys and not node["unmeasured"] for node in found["nodes"])
    for node in found["nodes"]:
        assert (node["on"] == "CPU") == bool(node["reason"]) == (node["subgraph"] is None)
    layouts = {"HzQuantize", "HzDequantize", "Transpose", "Reshape"}
    kinds = [node["type"] for node in found["nodes"] if node["type"] not in layouts]
    assert kinds.count("HzSQuantizedConv") >= 2
    assert [kind for kind in found["quantized_graph"] if kind not in layouts] == kinds
    assert list(tmp_path.iterdir()) == []


def test_check_names_the_types_that_nodes_read(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    slope = numpy_helper.from_array(np.full((4, 1, 1), 0.25, np.float32), "slope")
    one = numpy_helper.from_array(np.asarray([1], np.int64), "one")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("PRelu", ["c", "slope"], ["p"], "prelu"),
        helper.make_node("Cast", ["p"], ["i"], "cast", to=TensorProto.INT64),
        helper.make_node("Add", ["i", "one"], ["a"], "add"),
        helper.make_node("Less", ["i", "a"], ["l"], "less"),
        helper.make_node("Not", ["l"], ["y"], "not"),
    ]
    borders = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8)),
        helper.make_tensor_value_info("y", TensorProto.BOOL, (1, 4, 8, 8)),
    ]
    graph = helper.make_graph(nodes, "g", borders[:1], borders[1:], [weight, slope, one])
    opset = helper.make_opsetid("", 11)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=7), tmp_path / "m.onnx")
    found = {node["node"]: node["dtype"] for node in printed("check", str(tmp_path / "m.onnx"))["nodes"]}
    assert found == {"conv": "int8", "prelu": "int16", "cast": "float", "add": "int64", "less": "int64", "not": "bool"}


def test_check_with_int16_and_as_a_table() -> None:
    """The first convolution reads one channel at a step of 2, and stays int8 in the original too (4 networks asked)."""
    nodes = printed("check", model("mnist_resnet8"))["nodes"]
    first, name, *_ = (node["node"] for node in nodes if node["type"] == "HzSQuantizedConv")
    request = json.dumps({name: {"InputType": "int16", "OutputType": "int16"}})
    changed = printed("check", model("mnist_resnet8"), "--node-info", request)["nodes"]
    assert {node["node"]: node["dtype"] for node in changed}[name] == "int16"
    result = CliRunner().invoke(app, ["check", model("mnist_resnet8")])
    assert "BPU subgraphs" in result.stdout
    assert first in result.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--march", "nano"], ConfigError, "expected one of bernoulli2, bayes, bayes-e"),
        (["--node-info", "{"], ConfigError, "not valid JSON"),
        (["--node-info", "[]"], ConfigError, "expected an object"),
        (["--node-info", '{"a": {"In": "int16"}}'], ConfigError, "keys are"),
        (["--input-shape", "image"], ConfigError, "give NAME=SHAPE"),
        (["--input-shape", "picture=1x3x8x8"], ConfigError, "picture"),
    ],
)
@pytest.mark.parametrize("command", ["check", "predict"])
def test_mistakes_are_named(command: str, arguments: list[str], error: type[PtqlabError], message: str) -> None:
    result = CliRunner().invoke(app, [command, model(), *arguments])
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_no_model(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"nothing")
    assert isinstance(CliRunner().invoke(app, ["check", str(broken)]).exception, ModelError)
    several = CliRunner().invoke(app, ["check", model(), "--march", "bayes,bayes-e"])
    assert "expected one architecture" in str(several.exception)


@pytest.mark.parametrize("command", ["check", "explain", "predict"])
def test_names_are_no_markup(command: str, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "block[conv]"),
        helper.make_node("Neg", ["c"], ["n"], "a[/b]"),
        helper.make_node("Conv", ["n", "w"], ["y"], "last"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 8)) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    result = CliRunner().invoke(app, [command, str(path)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "a[/b]" in result.output
    assert command == "predict" or "block[conv]" in result.output


def test_the_dictionary_names_every_node_with_its_reason(converted: Converted) -> None:
    result = converted.result
    found = as_dict(result)
    assert [node["node"] for node in found["nodes"]] == [row.node for row in result.nodes]
    assert found["quantized_graph"] == [node.op_type for node in result.models["quantized"].graph]
    assert all(bool(node["reason"]) == (node["on"] == "CPU") for node in found["nodes"])
