"""How far the conversion of a network is known: which of its nodes rest on rules that recorded conversions show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.rulebook.book import RULES
from engine.rulebook.evidence import evidence_for

MOST_OTHERWISE = 0.01
"""Share of the recorded nodes of a rule at which the original may do otherwise before the rule is doubted."""
MOST_NAMES, MOST_DOUBTS = 3, 4
BETWEEN = "; "
"""Between several doubts about a node; none has it in itself."""
HOW_TO_SETTLE = (
    "ptqlab conformance hunt --toolchain CMD --network NET asks the original about these; what ptqlab ship builds does "
    "not depend on them"
)


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


@dataclass(frozen=True)
class Known:
    """How many nodes of a conversion rest on rules with evidence, and which do not.

    Attributes:
        nodes: of the node table.
        doubtful: of these, about which anything is doubted.
        doubts: names of nodes by what is doubted about them, what concerns most nodes first; a node may be in several.
    """

    nodes: int
    doubtful: int
    doubts: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]]) -> Known:
        """Take each node's name and the doubt about it (:func:`doubt_about`)."""
        found = list(rows)
        doubts: dict[str, list[str]] = {}
        for name, doubt in found:
            for each in filter(None, doubt.split(BETWEEN)):
                doubts.setdefault(each, []).append(name)
        ordered = sorted(doubts.items(), key=lambda item: -len(item[1]))
        doubtful = sum(bool(doubt) for _, doubt in found)
        return cls(len(found), doubtful, {doubt: tuple(names) for doubt, names in ordered})

    def __str__(self) -> str:
        if not self.doubts:
            return f"all {self.nodes:,} nodes by rules that recorded conversions show"
        shown = list(self.doubts.items())[:MOST_DOUBTS]
        listed = "; ".join(f"{len(names)} by {doubt}: {_several(names)}" for doubt, names in shown)
        if rest := len(self.doubts) - len(shown):
            listed += f"; and {rest} other reasons" if rest > 1 else "; and another reason"
        known = self.nodes - self.doubtful
        return f"{known:,} of {self.nodes:,} nodes by rules that recorded conversions show; {listed}. {HOW_TO_SETTLE}"


def _several(names: tuple[str, ...]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
