"""Whole networks: valid, runnable, the same for the same seed, of every kind."""

from __future__ import annotations

import pytest

from engine.conformance.hunt.grammar.networks import KINDS, MOST_NODES, draw_network
from tests.engine.conformance.hunt.grammar.running import run


@pytest.mark.parametrize("index", range(40))
def test_a_network_is_valid_and_runs(index: int) -> None:
    net = draw_network(7, index)
    run(net)
    assert net.opset in (10, 11)
    assert len(net.model().graph.node) <= MOST_NODES
    assert all(side <= 70 for shape in net.inputs.values() for side in shape)


def test_the_same_seed_draws_the_same_network() -> None:
    first, second = (draw_network(3, 5).model().SerializeToString() for _ in range(2))
    assert first == second
    assert draw_network(3, 6).model().SerializeToString() != first
    assert draw_network(4, 5).model().SerializeToString() != first


def test_every_kind_is_drawn_and_named_first() -> None:
    seen = {draw_network(1, index).blocks[0] for index in range(300)}
    assert seen == {kind.__name__ for kind, _ in KINDS}
