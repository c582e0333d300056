"""``ptqlab explain``: reasons, hints, doubts, and one page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from engine.cli.lab.explain import Explained, explained, page
from engine.conformance import disagreements
from engine.conformance.departure import ComparedStage
from harness.cli.main import app
from tests.configurations import FEATUREMAP
from tests.engine.cli.lab.commands import model, printed
from tests.engine.convert.conftest import Converted


def test_explain_shows_reasons_hints_and_writes_one_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    names = [node["node"] for node in printed("check", model("mnist_lenet"))["nodes"]]
    request = json.dumps({names[0]: {"ON": "CPU"}})
    result = CliRunner().invoke(app, ["explain", model("mnist_lenet"), "--node-info", request, "--html", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert "run_on_cpu is set" in text
    assert "remove the node from run_on_cpu" in text
    assert text.count("<tr id=") >= len(names)
    assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), "a namespace, which is not loaded"
    assert list(tmp_path.iterdir()) == [page]
    content = printed("explain", model("mnist_lenet"), "--node-info", request)
    assert content["nodes"][0]["name"] == names[0]
    assert "run_on_cpu" in content["nodes"][0]["hint"]


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
        stage=ComparedStage.COMPILATION,
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
        assert "1 by unmeasured: Shrink on rank 4: rare" in text
    marks = {node["node"]: node["unmeasured"] for node in printed("check", str(path))["nodes"]}
    assert marks["rare"] == "unmeasured: Shrink on rank 4"
    assert marks["wide"] == ""


def test_explain_follows_a_configuration(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    sizes = {"x": 8, "y": 6}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, n, n)) for name, n in sizes.items()]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")], "g", values[:1], values[1:], [weight]
    )
    path, config = tmp_path / "m.onnx", tmp_path / "c.yaml"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), path)
    (tmp_path / "data").mkdir()
    groups = FEATUREMAP | {"calibration_parameters": {"cal_data_dir": "data", "optimization": "bias_correction"}}
    groups |= {"model_parameters": {**FEATUREMAP["model_parameters"], "node_info": {"conv": {"InputType": "int16"}}}}
    config.write_text(yaml.safe_dump(groups), "utf-8")
    assert printed("explain", str(path))["warnings"] == []
    content = printed("explain", str(path), "--config", str(config))
    assert [node["data_type"] for node in content["nodes"] if node["name"] == "conv"] == ["int16"]
    assert content["warnings"][0].startswith("conv (Conv; optimization: bias_correction): may depart from the original")
    both = CliRunner().invoke(app, ["explain", str(path), "-c", str(config), "--march", "bayes"])
    assert str(both.exception) == "--march, --input-shape, --fix and --node-info: the file of --config has them"


def test_explain_lists_what_the_fast_simulator_has_no_instructions_for(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((8, 4, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("DepthToSpace", ["c"], ["d"], "pixels", blocksize=2, mode="CRD"),
        helper.make_node("Conv", ["d", "v"], ["y"], "last"),
    ]
    shapes = {"x": (1, 4, 8, 8), "y": (1, 4, 16, 16)}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    last = numpy_helper.from_array(np.ones((4, 2, 1, 1), np.float32), "v")
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight, last])
    path, page = tmp_path / "m.onnx", tmp_path / "page.html"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    result = CliRunner().invoke(app, ["explain", str(path), "--html", str(page)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    line = "pixels (HzDepthToSpace): mode CRD, on which numpy is faster"
    assert f"  {line}\n" in result.output
    assert f"<li>{line}</li>" in page.read_text("utf-8")
    assert "computes them slowly" not in CliRunner().invoke(app, ["explain", model("mnist_lenet")]).output


def row(name: str, *reads: str) -> Explained:
    return Explained(name, "BPU", 0, "HzSConv2d", "int8", (1, 2), 1.0, 2, "", "", reads, "", ())


def test_rows_of_a_conversion(converted: Converted) -> None:
    rows = {item.name: item for item in explained(converted.result)}
    layers = {layer.name: layer for layer in converted.result.performance.layers}
    second = rows["second"]
    assert second.time_us == layers["second"].latency_us
    assert second.bytes == layers["second"].loaded_bytes + layers["second"].stored_bytes
    assert second.reads == ("first",)
    assert (second.reason, second.hint) == ("", "")
    assert all(item.time_us is None for item in rows.values() if item.on == "CPU")


def test_names_are_escaped_on_the_page(converted: Converted) -> None:
    text = page(converted.result, (row("<node>"),), doubts=("a < b",))
    assert "&lt;node&gt;" in text
    assert "<node>" not in text
    assert "a &lt; b" in text
