"""Tables that users read: nodes, outputs, the file beside the container."""

from __future__ import annotations

import json

import onnx_ir as ir
import pytest

from engine.convert.tables import NodeRow, cosines, node_rows, quant_info
from engine.floats.compare import ModelComparison
from engine.ir import calibration_nodes, read_calibration
from engine.ops.core.reasons import Code
from tests.engine.calibrate.models import residual
from tests.engine.convert.conftest import Converted


def row(node: str, **fields: object) -> NodeRow:
    return NodeRow(node, "BPU", 0, "HzSConv2d", None, None, "int8", **fields)


@pytest.mark.parametrize(
    ("unmeasured", "quirks", "expected"), [("", "", ""), ("a", "", "a"), ("", "b", "b"), ("a", "b", "a; b")]
)
def test_remarks_are_joined(unmeasured: str, quirks: str, expected: str) -> None:
    assert row("n", unmeasured=unmeasured, quirks=quirks).remarks == expected


def test_similarities_are_found_by_node_and_by_tensor() -> None:
    found = cosines(residual(), ModelComparison({}, {"conv0": 0.5, "other": 0.25}))
    assert found == {"c0": 0.5, "conv0": 0.5, "other": 0.25}


def test_the_node_table(converted: Converted) -> None:
    rows = {item.node: item for item in converted.result.nodes}
    calibrated = converted.result.models["calibrated"]
    thresholds = {
        node.inputs[0].name: float(read_calibration(node).thresholds.max()) for node in calibration_nodes(calibrated)
    }
    second = rows["second"]
    assert (second.on, second.subgraph, second.data_type, second.reason) == ("BPU", 0, "int8", None)
    assert second.threshold == thresholds["r0"]
    assert 0.99 < second.cosine <= 1
    assert not [name for name in rows if name.startswith(("quantize", "dequantize"))]


def test_a_similarity_is_that_of_the_node_before_that_of_its_tensor(converted: Converted) -> None:
    result = converted.result
    found = node_rows(result.compiled, result.models["calibrated"], {"second": 0.25, "c1": 0.5, "r0": 0.75})
    by_name = {item.node: item.cosine for item in found}
    assert by_name["second"] == 0.25
    assert 0.75 in by_name.values()


def test_nodes_without_a_reason_of_their_own_were_added(converted: Converted) -> None:
    result = converted.result
    stripped = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 11}), ir_version=8)
    cpu = [item for item in node_rows(result.compiled, stripped, {}) if item.on == "CPU"]
    assert {item.reason.code for item in cpu} <= {Code.ADDED_NODE}
    assert all(item.threshold is None and item.subgraph is None for item in cpu)


def test_the_file_beside_the_container(converted: Converted) -> None:
    result = converted.result
    content = json.loads(quant_info(result.compiled, result.models["calibrated"], result.nodes))
    assert content == json.loads((converted.folder / result.files["quant_info"]).read_text())
    second = content["second"]
    assert (second["type"], second["inputs"]) == (
        next(row.type for row in result.nodes if row.node == "second"),
        ["r0"],
    )
    assert second["cosine_similarity"] == next(item.cosine for item in result.nodes if item.node == "second")
    assert set(second["thresholds"]) <= {*second["inputs"], *second["outputs"]}
    assert "r0" in second["thresholds"]
