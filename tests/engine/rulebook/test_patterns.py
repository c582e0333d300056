"""Patterns of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir
import pytest
from onnx import helper

from engine.rulebook.patterns import gives_rank, of_node, op, read_by
from engine.rulebook.rule import Pattern
from tests.engine.place.networks import network, one


@dataclass(frozen=True)
class Site:
    node: ir.Node


@pytest.mark.parametrize(
    ("pattern", "says", "holds"),
    [
        (op("Relu"), "is a Relu", ["Middle"]),
        (op("Exp", "Relu", "Add"), "is an Exp, Relu or Add", ["E", "Middle"]),
        (read_by("Exp", "Neg"), "is read by an Exp or Neg", ["Conv_0"]),
        (gives_rank(4), "gives tensors of rank 4", ["Conv_0", "E", "Middle", "Conv_9"]),
        (gives_rank(3), "gives tensors of rank 3", []),
        (of_node("is called E", lambda node: node.name == "E"), "is called E", ["E"]),
    ],
)
def test_patterns_say_what_they_hold_for(pattern: Pattern[Site], says: str, holds: list[str]) -> None:
    model = network([helper.make_node("Exp", ["c0"], ["e"], name="E"), one("Relu", "e")])
    assert pattern.says == says
    assert [node.name for node in model.graph if pattern.holds(Site(node))] == holds
