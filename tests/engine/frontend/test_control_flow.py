"""Branches that a constant decides are put in place; other control flow is refused with one message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from engine.errors import UnsupportedError
from engine.frontend.control_flow import has_branches, put_branches_in_place
from engine.frontend.onnx import load_onnx
from tests.engine.frontend.networks import network, saved

SHAPE = (1, 4)
CONDITION = ("Shape", "Size", "Equal", "Constant")


def _value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] = SHAPE) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _branch(op_type: str) -> onnx.GraphProto:
    """A branch that reads the tensor ``a`` of the graph around it."""
    return helper.make_graph(
        [helper.make_node(op_type, ["a"], [f"{op_type}_y"])], op_type, [], [_value(f"{op_type}_y")]
    )


def _conditional(condition: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    branches = {"then_branch": _branch("Relu"), "else_branch": _branch("Sigmoid")}
    nodes = [helper.make_node("Neg", ["x"], ["a"]), *condition, helper.make_node("If", ["c"], ["y"], "if", **branches)]
    return network(nodes, {"x": SHAPE}, ["y"], constants)


@pytest.mark.parametrize(("rank", "taken"), [(2, "Relu"), (3, "Sigmoid")])
def test_a_branch_that_shapes_decide_is_put_in_place(tmp_path: Path, rank: int, taken: str) -> None:
    condition = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Size", ["s"], ["r"]),
        helper.make_node("Equal", ["r", "rank"], ["c"]),
    ]
    model = load_onnx(saved(_conditional(condition, {"rank": np.array(rank)}), tmp_path))
    assert [node.op_type for node in model.graph if node.op_type not in CONDITION] == ["Neg", taken]
    assert [(value.name, tuple(value.shape or ())) for value in model.graph.outputs] == [("y", SHAPE)]


@pytest.mark.parametrize(("value", "taken"), [(True, "Relu"), (False, "Sigmoid")])
def test_a_constant_branch_is_put_in_place(tmp_path: Path, value: bool, taken: str) -> None:
    model = load_onnx(saved(_conditional([], {"c": np.array(value)}), tmp_path))
    assert [node.op_type for node in model.graph] == ["Neg", taken]


def _loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [_value("i", TensorProto.INT64, ()), _value("go", TensorProto.BOOL, ()), _value("v")],
        [_value("on", TensorProto.BOOL, ()), _value("w")],
    )
    node = helper.make_node("Loop", ["n", "c", "x"], ["y"], "loop", body=body)
    return network([node], {"x": SHAPE}, ["y"], {"n": np.array(3), "c": np.array(True)})


def _scan() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["o"])],
        "body",
        [_value("s", shape=(4,)), _value("e", shape=(4,))],
        [_value("t", shape=(4,)), _value("o", shape=(4,))],
    )
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], "scan", body=body, num_scan_inputs=1)
    return network([node], {"x": SHAPE}, ["y"], {"start": np.zeros(4, np.float32)})


def _data_dependent() -> onnx.ModelProto:
    condition = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "z"], ["c"]),
    ]
    return _conditional(condition, {"z": np.array(0, np.float32)})


@pytest.mark.parametrize(
    ("make", "name"), [(_data_dependent, r"'if' \(If\)"), (_loop, r"'loop' \(Loop\)"), (_scan, r"'scan' \(Scan\)")]
)
def test_other_control_flow_is_refused(tmp_path: Path, make: object, name: str) -> None:
    assert callable(make)
    with pytest.raises(UnsupportedError, match=f"node {name} holds a subgraph; control flow is supported only as If"):
        load_onnx(saved(make(), tmp_path))


def test_whether_there_are_branches() -> None:
    path = Path("m.onnx")
    assert has_branches(ir.from_proto(_data_dependent()), path)
    assert not has_branches(ir.from_proto(network([helper.make_node("Neg", ["x"], ["y"])], {"x": SHAPE}, ["y"])), path)
    with pytest.raises(UnsupportedError, match=r"m.onnx: node 'loop' \(Loop\) holds a subgraph"):
        has_branches(ir.from_proto(_loop()), path)


def test_a_branch_that_the_data_decide_is_refused_only_where_it_should_go() -> None:
    with pytest.raises(UnsupportedError, match=r"node 'if' \(If\) holds a subgraph"):
        put_branches_in_place(ir.from_proto(_data_dependent()), Path("m.onnx"))
