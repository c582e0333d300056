"""Layers of convolutional networks."""

from __future__ import annotations

import pytest

from research.draws import latency_draw
from research.draws.layers import LAYERS


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("transposed", {"ConvTranspose"}),
        ("pool", {"MaxPool", "AveragePool"}),
        ("reduce", {"ReduceMean", "ReduceMax", "ReduceSum"}),
        ("resize", {"Resize"}),
    ],
)
def test_a_family_has_the_layer_that_it_is_called_after(family: str, kinds: set[str]) -> None:
    assert family in LAYERS
    for index in range(4):
        assert kinds & {node.op_type for node in latency_draw(family, index, "bayes-e").model.graph.node}
