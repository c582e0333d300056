"""Places of nodes in a picture."""

from __future__ import annotations

from engine.pages.graph import GraphNode, graph_data, places


def test_a_node_stands_below_the_longest_way_from_an_input() -> None:
    reads = {"a": (), "b": ("a",), "c": ("a",), "d": ("a", "c"), "e": ("d", "a")}
    assert places(reads) == {"a": (0, 0), "b": (0, 1), "c": (1, 1), "d": (0, 2), "e": (0, 3)}


def test_nodes_are_numbered_for_the_page() -> None:
    nodes = [GraphNode("<a>", "Conv", "BPU", cost=1.5), GraphNode("b", "Add", "CPU", reads=("<a>", "<a>"), href="#b")]
    found = graph_data(nodes)
    assert [each["reads"] for each in found] == [[], [0, 0]]
    assert [each["place"] for each in found] == [(0, 0), (0, 1)]
    assert found[0]["name"] == "<a>"
