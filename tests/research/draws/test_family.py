"""What lies around the layer that a family shows."""

from __future__ import annotations

from engine.conformance.hunt.grammar.drawing import Drawing
from research.draws.family import between, between_dense, one_of


def tanh(net: Drawing, x: str) -> str:
    return net.op("Tanh", x)


def kinds(net: Drawing, y: str) -> list[str]:
    net.output(y)
    return [node.op_type for node in net.model().graph.node]


def test_a_layer_of_a_map_lies_between_two_convolutions() -> None:
    net = Drawing("between", (1, 8, 4, 4), (1,))
    assert kinds(net, between(tanh)(net, "x")) == ["Conv", "Relu", "Tanh", "Conv"]


def test_a_layer_of_tokens_lies_between_two_dense_layers() -> None:
    net = Drawing("between", (1, 4, 8), (1,))
    found = kinds(net, between_dense(tanh)(net, "x"))
    assert found.index("MatMul") < found.index("Relu") < found.index("Tanh")
    assert found[found.index("Tanh") :].count("MatMul") == 1


def test_the_block_that_is_drawn_is_noted() -> None:
    net = Drawing("one", (1, 8, 4, 4), (1,))
    assert kinds(net, one_of(tanh)(net, "x")) == ["Tanh"]
    assert net.blocks == ["tanh"]
