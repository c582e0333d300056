"""Every rule that a small recorded network needs: with it the network is placed as by the original, without it not."""

from __future__ import annotations

import pytest

from engine.conformance.rule_evidence import DROPPABLE, agreement, needed_by, signature
from engine.rulebook.book import BOOK, RULES
from tests.parity.rule_cases import ON_DATA, RuleCase, placement_departures, rule_cases

CASES = rule_cases()
WITHOUT_CASE = {
    "calibrated.moved": "what is moved at the end is calibrated before, or an int32 sum, in small networks",
}
"""Rules that no recorded network of a few nodes needs yet, and why."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_network_is_placed_as_by_the_original(case: RuleCase) -> None:
    assert placement_departures(case.subject().placed(), case.answered()) == case.departs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_placed_further_from_the_original_without_each_rule_that_it_needs(case: RuleCase) -> None:
    subject = case.subject()
    agreed = agreement(subject.placed(), case.answered())
    assert tuple(needed_by(subject, case.rules)) == case.rules
    for rule in set(case.rules) - ON_DATA.keys():
        assert agreement(subject.placed(BOOK.without(rule)), case.answered()) < agreed, rule


def test_placing_twice_gives_the_same() -> None:
    subject = CASES[0].subject()
    assert signature(subject.placed()) == signature(subject.placed(BOOK.without()))


def test_every_rule_has_a_case() -> None:
    placing = {rule for rule in DROPPABLE if RULES[rule].measured is None}
    shown = {rule for case in CASES for rule in case.rules}
    assert placing - WITHOUT_CASE.keys() <= shown
    assert not shown & WITHOUT_CASE.keys()
