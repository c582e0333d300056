"""Why it is not known that the original converts a node as we do."""

from __future__ import annotations

from collections.abc import Iterable

from engine.rulebook.book import RULES
from engine.rulebook.evidence import evidence_for
from engine.rulebook.known import BETWEEN

MOST_OTHERWISE = 0.01
"""Share of the recorded nodes of a rule at which the original may do otherwise before the rule is doubted."""


def doubt_about(rules: Iterable[str], unmeasured: str = "") -> str:
    """Why it is not known that the original converts a node so; empty where it is.

    Args:
        rules: ids of the rules that decided the node.
        unmeasured: operator and rank that no measured conversion has.
    """
    return BETWEEN.join(filter(None, (unmeasured, *map(_doubt, rules))))


def _doubt(rule: str) -> str:
    if rule in RULES and RULES[rule].measured is not None:  # asked by hand, since no replay shows it
        return ""
    evidence = evidence_for(rule)
    if not evidence.cases:
        return f"rule {rule} (no recorded conversion shows it)"
    if evidence.provisional:
        return f"rule {rule} (one network shows it)"
    decided = evidence.nodes + evidence.contradicted
    if evidence.contradicted > MOST_OTHERWISE * decided:
        return f"rule {rule} (the original did otherwise at {evidence.contradicted} of {decided} nodes)"
    return ""
