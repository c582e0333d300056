"""Passes as rules."""

from __future__ import annotations

import pytest
from onnx import helper

from engine.optimize import optimize
from engine.rulebook.marks import rules_of
from engine.rulebook.rewrite import REWRITES, rewrite_id
from tests.engine.place.networks import network, one


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("GemmToConv", "rewrite.gemm-to-conv"),
        ("Pool1d", "rewrite.pool1d"),
        ("ConvertOldOpsets", "rewrite.convert-old-opsets"),
    ],
)
def test_ids_are_spelled_as_others(name: str, found: str) -> None:
    assert rewrite_id(name) == found
    assert found in REWRITES


def test_every_pass_says_in_a_sentence_what_it_does() -> None:
    assert all(rule.says.endswith(".") and "``" not in rule.says for rule in REWRITES.values())


def test_a_node_carries_the_pass_that_made_it() -> None:
    middle = [helper.make_node("Sigmoid", ["c0"], ["s"], name="S"), one("Mul", "c0", "s")]
    found = {node.op_type: rules_of(node) for node in optimize(network(middle), "bayes-e").graph}
    assert found["HzSwish"] == ("rewrite.collapse-activations",)
    assert not found["Conv"]
