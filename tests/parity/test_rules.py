"""Every rule that a small recorded network needs: with it the network is placed as by the original, without it not."""

from __future__ import annotations

import pytest

from engine.conformance.rule_evidence import needed_by, signature
from engine.ir import MARK_ON, calibration_nodes
from engine.rulebook.book import BOOK, RULES
from engine.rulebook.rewrite import REWRITES
from tests.parity.rule_cases import RuleCase, rule_cases

CASES = rule_cases()
WITHOUT_CASE = (
    {rule.id for rule in RULES.values() if rule.measured is None}
    - REWRITES.keys()
    - {rule for case in CASES for rule in case.rules}
)
"""Rules that no recorded network of a few nodes needs; this set may only become smaller."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_network_is_placed_as_by_the_original(case: RuleCase) -> None:
    placed = case.subject().placed()
    found = {str(node.name): node.metadata_props.get(MARK_ON) for node in placed.graph}
    assert {name: found.get(name) for name in case.devices} == case.devices
    names = {str(node.inputs[0].name) for node in calibration_nodes(placed) if node.inputs[0] is not None}
    assert set(case.calibrated) <= names


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_placed_otherwise_without_each_rule_that_it_needs(case: RuleCase) -> None:
    assert tuple(needed_by(case.subject(), case.rules)) == case.rules


def test_placing_twice_gives_the_same() -> None:
    subject = CASES[0].subject()
    assert signature(subject.placed()) == signature(subject.placed(BOOK.without()))


def test_most_rules_have_a_case() -> None:
    assert len(WITHOUT_CASE) <= 18, sorted(WITHOUT_CASE)
