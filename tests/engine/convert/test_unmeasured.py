"""Nodes that nothing measured covers are marked by operator and rank; those that the conversion added are not."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.chips import March, load_chip
from engine.chips.coverage import is_measured, load_measured
from engine.convert import NodeRow
from engine.convert.unmeasured import activation_rank, mark_unmeasured


def network(*nodes: onnx.NodeProto) -> ir.Model:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 4, 5, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, 4, 5, 6])],
    )
    return ir.from_proto(helper.make_model(graph))


def row(name: str) -> NodeRow:
    return NodeRow(name, "BPU", 0, "HzLut", None, None, "int8")


@pytest.mark.parametrize(
    ("node", "name", "expected"),
    [
        (helper.make_node("Sin", ["x"], ["y"], "wave"), "wave", "unmeasured: Sin on rank 6"),
        (helper.make_node("Sin", ["x"], ["y"], "wave"), "wave_reshape_input", "unmeasured: Sin on rank 6"),
        (helper.make_node("Sin", ["x"], ["y"], "wave"), "x_calibrated_pad", ""),
        (helper.make_node("Mine", ["x"], ["y"], "wave", domain="my.own"), "wave", ""),
    ],
)
def test_rows_are_marked(node: onnx.NodeProto, name: str, expected: str) -> None:
    (marked,) = mark_unmeasured((row(name),), network(node), "bayes-e")
    assert marked.unmeasured == expected


def test_rank_is_of_the_largest_activation() -> None:
    (node,) = network(helper.make_node("Sin", ["x"], ["y"], "wave")).graph
    assert activation_rank(node) == 6


@pytest.mark.parametrize("march", [item.value for item in March])
def test_what_every_network_has_is_measured(march: str) -> None:
    assert is_measured(march, "Conv", 4)
    assert not is_measured(march, "Conv", 6)
    assert all(ranks == tuple(sorted(set(ranks))) for ranks in load_measured()[load_chip(march).figures].values())
