"""How far the conversion of a network is known."""

from __future__ import annotations

from engine.rulebook.book import RULES
from engine.rulebook.evidence import evidence_for
from engine.rulebook.known import HOW_TO_SETTLE, MOST_OTHERWISE, Known, doubt_about

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


def test_a_network_without_doubts() -> None:
    assert str(Known.of([("a", ""), ("b", "")])) == "all 2 nodes by rules that recorded conversions show"


def test_doubtful_nodes_are_counted_named_and_can_be_settled() -> None:
    found = Known.of([("a", ""), *((name, "rule x (one network shows it)") for name in "bcdef")])
    assert (found.nodes, found.doubtful) == (6, 5)
    twice = Known.of([("a", "x; y"), ("b", "y")])
    assert (twice.doubtful, dict(twice.doubts)) == (2, {"y": ("a", "b"), "x": ("a",)})
    assert str(found) == (
        "1 of 6 nodes by rules that recorded conversions show; 5 by rule x (one network shows it): b, c, d and 2 more. "
        f"{HOW_TO_SETTLE}"
    )
