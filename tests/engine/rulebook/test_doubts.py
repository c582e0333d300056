"""Which rules leave a doubt about a node."""

from __future__ import annotations

from engine.rulebook.book import RULES
from engine.rulebook.doubts import MOST_OTHERWISE, doubt_about
from engine.rulebook.evidence import evidence_for

MEASURED = next(rule.id for rule in RULES.values() if rule.measured is not None)


def rule_with(shown: bool, otherwise: bool = False) -> str:
    """A rule that several networks show, or none does; where the original often does otherwise, or hardly ever."""
    for rule in RULES.values():
        found = evidence_for(rule.id)
        often = found.contradicted > MOST_OTHERWISE * (found.nodes + found.contradicted)
        fits = (found.networks > 1) == shown and (found.cases > 0) == shown and often == otherwise
        if rule.measured is None and fits:
            return rule.id
    raise AssertionError("no rule has such evidence")


def test_rules_that_several_networks_show_leave_no_doubt() -> None:
    assert doubt_about([rule_with(shown=True), MEASURED]) == ""


def test_what_is_doubted_is_said_with_the_rule() -> None:
    unshown, often = rule_with(shown=False), rule_with(shown=True, otherwise=True)
    found = doubt_about([unshown, often], "unmeasured: Foo on rank 3")
    assert found.startswith(f"unmeasured: Foo on rank 3; rule {unshown} (no recorded conversion shows it); ")
    assert f"rule {often} (the original did otherwise at {evidence_for(often).contradicted} of" in found
