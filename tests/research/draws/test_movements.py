"""Layers that move."""

from __future__ import annotations

import pytest

from research.draws import latency_draw
from research.draws.movements import MOVEMENTS


@pytest.mark.parametrize("family", MOVEMENTS)
def test_every_movement_has_a_node_that_moves(family: str) -> None:
    moving = {"Reshape", "Transpose", "SpaceToDepth", "DepthToSpace", "Slice"}
    assert moving & {node.op_type for node in latency_draw(family, 0, "bayes-e").model.graph.node}
