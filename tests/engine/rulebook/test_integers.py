"""Rules that cost accuracy: on which placed nodes they are noted, and what is done instead."""

from __future__ import annotations

import pytest
from onnx import helper

from engine.ir import is_declined
from engine.place import PlacementOptions, place
from engine.place.options import NodeTypes
from engine.rulebook.integers import (
    ARITHMETIC,
    BIAS_CORRECTION_SAMPLE,
    BORDER_AVERAGE,
    DEFAULT_FIRST_SAMPLE,
    KL_DECIMALS,
    METHODS,
    imitates,
)
from engine.rulebook.marks import rules_of
from engine.terms import Compatibility
from tests.engine.place.networks import network, one

SLOPE, UNDEFINED = "arithmetic.hard-sigmoid-slope", "arithmetic.undefined-entries"
AVERAGE = helper.make_node("AveragePool", ["c0"], ["m"], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def noted(middle: helper.NodeProto, **options: object) -> list[str]:
    """Rules of the table that are noted on the node in the middle, and those that it does not follow behind a ``-``."""
    placed = place(network([middle]), "bayes-e", PlacementOptions(**options)).model
    node = next(node for node in placed.graph if node.op_type == middle.op_type)
    declined = [f"-{rule.id}" for rule in ARITHMETIC if is_declined(node, rule.id)]
    return [rule for rule in rules_of(node) if rule in [each.id for each in ARITHMETIC]] + declined


@pytest.mark.parametrize(
    ("operator", "rule"),
    [("HardSigmoid", SLOPE), ("Sqrt", UNDEFINED), ("Log", UNDEFINED), ("Sigmoid", None), ("Relu", None)],
)
def test_tables_follow_the_original_or_not(operator: str, rule: str | None) -> None:
    middle = one(operator, "c0")
    assert noted(middle) == ([rule] if rule else [])
    assert noted(middle, compatibility=Compatibility.CLEAN) == ([f"-{rule}"] if rule else [])


def test_tables_of_int16_and_functions_on_the_cpu_are_right() -> None:
    middle = one("Sqrt", "c0")
    name = middle.name
    assert noted(middle, node_info={name: NodeTypes(input_type="int16")}) == []
    assert noted(middle, run_on_cpu=frozenset({name})) == []


def test_an_average_over_the_border_is_followed_always() -> None:
    assert noted(AVERAGE) == noted(AVERAGE, compatibility=Compatibility.CLEAN) == [BORDER_AVERAGE]
    assert noted(AVERAGE, run_on_cpu=frozenset({"pool"})) == []


@pytest.mark.parametrize("rule", [BIAS_CORRECTION_SAMPLE, DEFAULT_FIRST_SAMPLE, KL_DECIMALS])
def test_methods_are_those_of_the_original_unless_clean(rule: str) -> None:
    assert imitates(rule, Compatibility.ORIGINAL)
    assert not imitates(rule, Compatibility.CLEAN)


def test_every_rule_says_what_shows_it_and_what_to_do() -> None:
    for rule in (*ARITHMETIC, *METHODS):
        assert rule.costs_accuracy
        assert rule.measured is not None
        assert rule.says.endswith(".")
        assert not rule.measured.how.endswith(".")
        assert not rule.instead.endswith(".")
