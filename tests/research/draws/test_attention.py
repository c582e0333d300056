"""Products of matrices and their surroundings."""

from __future__ import annotations

from research.draws import latency_draw
from research.draws.attention import ATTENTION


def test_products_of_matrices_are_asked_alone() -> None:
    net = latency_draw("matmul", 0, "bayes-e").model
    assert [node.op_type for node in net.graph.node] == ["MatMul"]
    assert len(net.graph.input) == 2


def test_attention_of_heads_multiplies_two_matrices_twice() -> None:
    assert "headed" in ATTENTION
    kinds = [node.op_type for node in latency_draw("headed", 0, "bayes-e").model.graph.node]
    assert kinds.count("Softmax") == 1
    at = kinds.index("Softmax")
    assert "MatMul" in kinds[:at]
    assert "MatMul" in kinds[at:]
