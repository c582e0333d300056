"""``ptqlab check`` and ``ptqlab predict``: what they print, what they refuse, and that they write nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from engine.conformance import disagreements
from engine.conformance.departure import Stage
from engine.errors import ConfigError, ModelError, PtqlabError
from harness.cli.main import app
from harness.zoo.cards import load_card

MARCHES = ("bernoulli2", "bayes", "bayes-e")


def model(name: str = "scene_yolo") -> str:
    return str(load_card(name).model_path())


def printed(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


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
    nodes = printed("check", model("mnist_resnet8"))["nodes"]
    name = next(node["node"] for node in nodes if node["type"] == "HzSQuantizedConv")
    request = json.dumps({name: {"InputType": "int16", "OutputType": "int16"}})
    changed = printed("check", model("mnist_resnet8"), "--node-info", request)["nodes"]
    assert {node["node"]: node["dtype"] for node in changed}[name] == "int16"
    result = CliRunner().invoke(app, ["check", model("mnist_resnet8")])
    assert "BPU subgraphs" in result.stdout
    assert name in result.stdout


def test_predict_gives_figures_by_march(tmp_path: Path) -> None:
    found = printed("predict", model(), "--march", ",".join(MARCHES), "--input-type", "nv12")
    assert tuple(found) == MARCHES
    for figures in found.values():
        assert figures["latency_us"] > 0
        assert figures["ddr_bytes"] == figures["loaded_bytes"] + figures["stored_bytes"]
        assert figures["subgraphs"] >= 1
        assert isinstance(figures["cpu_nodes"], list)
    assert list(tmp_path.iterdir()) == []


def test_predict_says_which_node_costs() -> None:
    figures = printed("predict", model("mnist_resnet8"))["bayes-e"]
    assert sum(cost["latency_us"] for cost in figures["nodes"]) == pytest.approx(figures["latency_us"])
    assert sum(part["latency"] for part in figures["subgraphs_us_ddr"]) == pytest.approx(figures["latency_us"])
    assert sum(part["ddr"] for part in figures["subgraphs_us_ddr"]) == figures["ddr_bytes"]
    dearest = figures["nodes"][0]["node"]
    table = CliRunner().invoke(app, ["predict", model("mnist_resnet8"), "--nodes", "1"]).stdout
    assert dearest in table
    assert f"{len(figures['nodes']) - 1} others" in table
    assert dearest not in CliRunner().invoke(app, ["predict", model("mnist_resnet8"), "--nodes", "0"]).stdout


def test_what_if() -> None:
    base = printed("predict", model())["bayes-e"]
    node = next(node["node"] for node in printed("check", model())["nodes"] if node["type"] == "HzSQuantizedConv")
    wide = printed("predict", model(), "--node-info", json.dumps({node: {"InputType": "int16"}}))["bayes-e"]
    assert wide["latency_us"] != base["latency_us"]
    smaller = printed("predict", model(), "--input-shape", "image=1x3x64x64")["bayes-e"]
    assert smaller["latency_us"] < base["latency_us"]
    image = printed("predict", model(), "--input-type", "rgb")["bayes-e"]
    assert image["loaded_bytes"] != base["loaded_bytes"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--march", "nano"], ConfigError, "expected one of bernoulli2, bayes, bayes-e"),
        (["--node-info", "{"], ConfigError, "is no JSON"),
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


def test_explain_shows_reasons_hints_and_writes_one_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    names = [node["node"] for node in printed("check", model("mnist_lenet"))["nodes"]]
    request = json.dumps({names[0]: {"ON": "CPU"}})
    result = CliRunner().invoke(app, ["explain", model("mnist_lenet"), "--node-info", request, "--html", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "run_on_cpu is set" in text
    assert "take the node out of run_on_cpu" in text
    assert text.count("<rect") == text.count("<tr id=") >= len(names)
    assert "http" not in text.replace("http-equiv", "")
    assert list(tmp_path.iterdir()) == [page]


def test_explain_tells_what_is_unmeasured_and_what_is_known_to_depart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "wide", dilations=[2, 2], pads=[2, 2, 2, 2]),
        helper.make_node("Shrink", ["c"], ["y"], "rare"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 8)) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    path, page = tmp_path / "m.onnx", tmp_path / "page.html"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    item = disagreements.Disagreement(
        network="some_net",
        node="wide",
        stage=Stage.COMPILATION,
        cause="unknown",
        effect="too low",
        rests_on=disagreements.Construct(operator="Conv", at_least={"dilations": 2}),
    )
    monkeypatch.setattr(disagreements, "known", lambda: (item,))
    result = CliRunner().invoke(app, ["explain", str(path), "--html", str(page)], env={"COLUMNS": "240"})
    assert result.exit_code == 0, result.output
    warning = "wide (Conv with dilations of 2 or more): may depart from the original at the stage compilation"
    for text in (" ".join(result.output.split()), page.read_text("utf-8")):
        assert warning in text
        assert "unmeasured: Shrink on rank 4" in text
    marks = {node["node"]: node["unmeasured"] for node in printed("check", str(path))["nodes"]}
    assert marks["rare"] == "unmeasured: Shrink on rank 4"
    assert marks["wide"] == ""


def test_explain_lists_what_the_fast_simulator_has_no_instructions_for(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("DepthToSpace", ["c"], ["d"], "pixels", blocksize=2, mode="CRD"),
        helper.make_node("Conv", ["d", "v"], ["y"], "last"),
    ]
    shapes = {"x": (1, 4, 8, 8), "y": (1, 4, 16, 16)}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    last = numpy_helper.from_array(np.ones((4, 1, 1, 1), np.float32), "v")
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight, last])
    path, page = tmp_path / "m.onnx", tmp_path / "page.html"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    result = CliRunner().invoke(app, ["explain", str(path), "--html", str(page)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    line = "pixels (HzDepthToSpace): mode CRD, on which numpy is faster"
    assert f"  {line}\n" in result.output
    assert f"<li>{line}</li>" in page.read_text("utf-8")
    assert "by their definition" not in CliRunner().invoke(app, ["explain", model("mnist_lenet")]).output


def test_a_march_without_figures_is_extrapolated_and_says_so() -> None:
    result = CliRunner().invoke(app, ["predict", model("mnist_lenet"), "--march", "nash-e,bayes-e", "--json"])
    found = json.loads(result.stdout)
    assert found["nash-e"].pop("extrapolated_from") == "bayes-e"
    assert found["bayes-e"].pop("extrapolated_from") is None
    assert found["nash-e"] == found["bayes-e"]
    assert "march nash-e: extrapolated" in result.stderr
    checked = printed("check", model("mnist_lenet"), "--march", "nash-m")
    assert checked == printed("check", model("mnist_lenet"), "--march", "bayes-e")


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
