"""Subgraphs and CPU nodes, and what flows between them."""

from __future__ import annotations

from engine.perf.structure import Part, Structure, structure_of
from engine.terms import Device
from tests.engine.compile.compiled import residual

A, B, C, D = (Part(name, "Kind", Device.CPU) for name in "abcd")
DIAMOND = Structure((A, B, C, D), (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")))


def test_levels_are_the_longest_ways() -> None:
    assert dict(DIAMOND.levels) == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert DIAMOND.places() == {"a": (0.0, 0.0), "b": (0.0, 1.0), "c": (1.0, 1.0), "d": (0.0, 2.0)}


def test_graphviz_gets_every_part_and_edge_escaped() -> None:
    parts = (Part('a"b', "Kind", Device.CPU), Part("c\\d", "subgraph", Device.BPU))
    text = Structure(parts, (('a"b', "c\\d"),)).dot()
    assert text.splitlines() == [
        "digraph model {",
        "  node [shape=box, style=filled, fontcolor=white];",
        r'  "a\"b" [label="Kind: a\"b", fillcolor=gray];',
        r'  "c\\d" [label="c\\d", fillcolor=darkcyan];',
        r'  "a\"b" -> "c\\d";',
        "}",
    ]


def test_a_subgraph_is_one_part_and_a_cpu_node_is_another() -> None:
    found = structure_of(residual())
    (subgraph,) = [part for part in found.nodes if part.device is Device.BPU]
    assert (subgraph.name, subgraph.kind) == ("net_subgraph_0", "subgraph")
    around = [part.kind for part in found.nodes if part.device is Device.CPU]
    assert around == ["HzQuantize", "HzDequantize"]
    names = [part.name for part in found.nodes]
    assert found.edges == ((names[0], names[1]), (names[1], names[2]))
