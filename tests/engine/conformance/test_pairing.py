"""Two graphs side by side: what is a difference, and what is only another way to write the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.conformance.pairing import Pairing, pair


def network(nodes: Sequence[onnx.NodeProto], **constants: object) -> ir.Model:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return ir.from_proto(helper.make_model(graph))


def mean(name: str = "m", output: str = "y", domain: str = "", **attributes: object) -> onnx.NodeProto:
    return helper.make_node("ReduceMean", ["x"], [output], name, domain=domain, **attributes)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (mean(axes=[2]), mean(axes=[-1])),
        (mean(axes=[2], keepdims=1), mean(axes=[2])),
        (mean(domain="horizon", switch=0), mean(domain="horizon")),
    ],
)
def test_other_ways_to_write_the_same(first: onnx.NodeProto, second: onnx.NodeProto) -> None:
    assert pair(network([first]), network([second])) == Pairing({"y": "y"}, None, None, None)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (mean(axes=[1]), "attribute axes"),
        (mean(axes=[2], keepdims=0), "attribute keepdims: 1 | 0"),
        (helper.make_node("ReduceMax", ["x"], ["y"], "m", axes=[2]), "ReduceMean | ReduceMax"),
    ],
)
def test_differences(second: onnx.NodeProto, message: str) -> None:
    difference = pair(network([mean(axes=[2])]), network([second])).difference
    assert difference is not None
    assert difference[0] == "m"
    assert message in difference[1]


def test_names_are_followed() -> None:
    relu = helper.make_node("Relu", ["t"], ["y"], "r")
    other = helper.make_node("Relu", ["u"], ["y"], "r")
    found = pair(network([mean(output="t", axes=[2]), relu]), network([mean("n", "u", axes=[2]), other]))
    assert found.difference is None
    assert found.names == {"t": "u", "y": "y"}
    assert found.renamed == ("m", "ours is called n")


def test_more_nodes_and_another_order() -> None:
    one, two = mean("a", "s"), helper.make_node("Relu", ["x"], ["t"], "b")
    total = helper.make_node("Add", ["s", "t"], ["y"], "c")
    extra = helper.make_node("Neg", ["y"], ["z"], "d")
    graph = network([one, two, total])
    assert pair(graph, network([one, two, total, extra])).difference == ("d", "only ours has this Neg")
    assert pair(graph, network([two, one, total])).difference == ("a", "order: ours has b in its place")
    assert pair(network([one, two, total, extra]), graph).difference == (
        "d",
        "ours has no such Neg, nothing in its place",
    )


def test_weights_are_apart_from_shapes() -> None:
    add = helper.make_node("Add", ["x", "w"], ["y"], "a")
    weights = np.arange(8, dtype=np.float32)
    found = pair(network([add], w=weights), network([add], w=weights + np.float32(1)))
    assert found.difference is None
    assert found.weight == ("w", "8 of 8 numbers differ, by up to 1")
    reshape = helper.make_node("Reshape", ["x", "s"], ["y"], "a")
    shapes = [network([reshape], s=np.asarray(shape, np.int64)) for shape in ([24], [-1])]
    assert pair(*shapes).difference == ("a", "constant s: [24] | [-1]")
