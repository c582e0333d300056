"""The base class of rewrites, and chains of new nodes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.rewrite.base import Chain, Rewrite, has_shapes, is_float, opset_of_node
from tests.engine.rewrite.networks import operators, rewritten, source


class Doubled(Rewrite):
    name = "doubled"
    says = "A Relu is written with a product that changes nothing."
    op_types = frozenset({"Relu"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        x = node.inputs[0]
        if x is None:
            return False
        chain.add("Relu", [chain.add("Mul", [x, chain.constant("one", np.float32(1.0))])])
        return True


@pytest.mark.parametrize(
    ("on_cpu", "count"), [(None, 2), ({"Relu_0"}, 1), ({"Relu_1_part"}, 1), ({"Relu_10"}, 0), (set(), 0)]
)
def test_nodes_that_the_cpu_computes_are_rewritten(on_cpu: set[str] | None, count: int) -> None:
    change = Doubled(on_cpu)
    after = rewritten(change, source("a = Relu(x); y = Relu(a)"))
    assert operators(after).count("Mul") == count
    assert len(change.places) == count
    assert len({node.name for node in after.graph}) == len(after.graph)


def test_the_last_node_gives_the_output_under_its_name() -> None:
    after = rewritten(Doubled(), source("y = Relu(x)"))
    assert [value.name for value in after.graph.outputs] == ["y"]


def test_what_changes_nothing_adds_no_node() -> None:
    node = source("y = Relu(x)").graph[0]
    chain = Chain(node)
    x = node.inputs[0]
    assert x is not None
    assert chain.reshape(x, (1, 4, 8, 8)) is x
    assert chain.transpose(x, [0, 1, 2, 3]) is x
    assert chain.slice(x, 1, 0, 4) is x
    assert chain.concat([x], 1) is x
    assert not chain.nodes


def test_pieces_have_their_shapes() -> None:
    node = source("y = Relu(x)").graph[0]
    chain, x = Chain(node), node.inputs[0]
    assert x is not None
    parts = chain.split(x, 1, [1, 3])
    made = [*parts, chain.slice(x, 3, 2, 5), chain.concat([x, x], 1), chain.transpose(x, [0, 2, 3, 1])]
    assert [tuple(value.shape or ()) for value in made] == [
        (1, 1, 8, 8),
        (1, 3, 8, 8),
        (1, 4, 8, 3),
        (1, 8, 8, 8),
        (1, 8, 8, 4),
    ]


def test_questions_about_nodes() -> None:
    node = source("y = Relu(x)", 16).graph[0]
    assert has_shapes(node)
    assert is_float(node)
    assert opset_of_node(node) == 16
    node.outputs[0].shape = None
    assert not has_shapes(node)
