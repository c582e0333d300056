"""The reference simulator: order, constants, and whose fault it is that a node cannot be computed."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError, UnsupportedError
from engine.simulate.reference import ReferenceSimulator, node_function, sorted_copy, split_constants

FLOAT = ir.TensorType(ir.DataType.FLOAT)


def tensor(name: str) -> ir.Value:
    return ir.Value(name=name, type=FLOAT, shape=ir.Shape((1, 2)))


def relu(x: ir.Value, name: str, **more: str) -> ir.Node:
    return ir.node("Relu", [x], outputs=[tensor(name)], name=f"node_{name}", **more)  # type: ignore[arg-type]


def model(x: ir.Value, nodes: list[ir.Node], outputs: list[ir.Value], constants: tuple[ir.Value, ...] = ()) -> ir.Model:
    graph = ir.Graph([x], outputs, nodes=nodes, initializers=constants, opset_imports={"": 13}, name="g")
    return ir.Model(graph, ir_version=8)


def test_nodes_are_sorted_and_samples_computed_one_by_one() -> None:
    x = tensor("x")
    first = relu(x, "a")
    second = ir.node("Neg", [first.outputs[0]], outputs=[tensor("b")], name="second")
    given = model(x, [second, first], [second.outputs[0]])
    found = ReferenceSimulator(given).run({"x": np.array([[-1, 2], [3, -4]], np.float32)})
    assert found["b"].tolist() == [[0, -2], [-3, 0]]
    assert [node.name for node in given.graph] == ["second", "node_a"], "the given model is left alone"


def test_a_cycle_cannot_be_ordered() -> None:
    x, loop = tensor("x"), tensor("loop")
    ring = ir.node("Add", [x, loop], outputs=[tensor("a")], name="ring")
    back = ir.node("Neg", [ring.outputs[0]], outputs=[loop], name="back")
    with pytest.raises(ModelError, match="graph g: its nodes cannot be ordered: they form a cycle"):
        sorted_copy(model(x, [ring, back], [loop]))


def test_a_node_without_outputs_is_refused() -> None:
    """Found by ``python -m tests.fuzz quantized --seed 1801``."""
    x = tensor("x")
    idle = ir.node("Relu", [x], outputs=[], name="idle")
    with pytest.raises(ModelError, match="nodes without outputs: idle"):
        sorted_copy(model(x, [idle, relu(x, "b")], [x]))


def test_what_nothing_writes_is_named() -> None:
    x = tensor("x")
    with pytest.raises(ModelError, match=r"node node_b \(Relu\) reads nowhere, which nothing writes"):
        sorted_copy(model(x, [relu(tensor("nowhere"), "b")], [x]))
    x = tensor("x")
    with pytest.raises(ModelError, match="graph outputs that nothing writes: c"):
        sorted_copy(model(x, [relu(x, "b")], [tensor("c")]))


def test_what_no_input_changes_is_computed_once() -> None:
    x = tensor("x")
    k = ir.Value(
        name="k", type=FLOAT, shape=ir.Shape((1, 2)), const_value=ir.tensor(np.array([[-1, 2]], np.float32), name="k")
    )
    fixed, changed = relu(k, "f"), ir.node("Add", [k, x], outputs=[tensor("y")], name="sum")
    known, nodes = split_constants(model(x, [fixed, changed], [changed.outputs[0], fixed.outputs[0]], (k,)))
    assert {name: array.tolist() for name, array in known.items()} == {"k": [[-1, 2]], "f": [[0, 2]]}
    assert [node.name for node in nodes] == ["sum"]


def test_operators_that_nobody_knows_are_named() -> None:
    x = tensor("x")
    given = model(x, [relu(x, "a")], [])
    with pytest.raises(UnsupportedError, match="node n: operator else::Relu is not known"):
        node_function(ir.node("Relu", [x], domain="else", name="n"), given)
    with pytest.raises(UnsupportedError, match="HzNothing is not known"):
        node_function(ir.node("HzNothing", [x], domain="horizon", name="n"), given)
    function = node_function(ir.node("HzChannelShuffle", [x], {"group": 3}, domain="horizon", name="n"), given)
    with pytest.raises(ModelError, match=r"node n \(HzChannelShuffle\) cannot be computed"):
        function([np.zeros((1, 1, 1, 4), np.int8)])


def test_complex_numbers_and_divisors_of_0_are_refused_without_a_warning() -> None:
    values = [ir.Value(name=name) for name in "xs"]
    quantize = ir.node("HzQuantize", values, domain="horizon", name="q")
    given = model(tensor("x"), [relu(tensor("y"), "a")], [])
    scale = np.ones(1, np.float32)
    with pytest.raises(ModelError, match=r"node q \(HzQuantize\) cannot be computed: complex"):
        node_function(quantize, given)([np.ones((1, 2), np.complex64), scale])
    assert node_function(quantize, given)([np.full((1, 2), 1e38, np.float32), scale * 1e-5])[0].tolist() == [
        [-128, -128]
    ]
    convolution = ir.node("HzSQuantizedConv", values, domain="horizon", name="c", attributes={"strides": [0, 1]})
    with pytest.raises(ModelError):
        node_function(convolution, given)([np.ones((1, 4, 4, 1), np.int8), np.ones((1, 1, 1, 1), np.int8)])
