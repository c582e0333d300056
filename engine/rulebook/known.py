"""How far the conversion of a network is known: which of its nodes rest on rules that recorded conversions show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST_NAMES, MOST_DOUBTS = 3, 4
BETWEEN = "; "
"""Between several doubts about a node; none has it in itself."""
_KNOWN = "by rules that recorded conversions show"


def how_to_settle(network: str = "NET") -> str:
    """What tells how the original converts the nodes in doubt of ``network``, a file; a sentence without its stop."""
    return (
        f"ptqlab conformance hunt --toolchain CMD --network {network} asks the original about these; what ptqlab ship "
        "builds does not depend on them"
    )


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
        """Take each node's name and the doubt about it (:func:`engine.rulebook.doubts.doubt_about`)."""
        found = list(rows)
        doubts: dict[str, list[str]] = {}
        for name, doubt in found:
            for each in filter(None, doubt.split(BETWEEN)):
                doubts.setdefault(each, []).append(name)
        ordered = sorted(doubts.items(), key=lambda item: -len(item[1]))
        doubtful = sum(bool(doubt) for _, doubt in found)
        return cls(len(found), doubtful, {doubt: tuple(names) for doubt, names in ordered})

    def __str__(self) -> str:
        return "; ".join((self.headline, *self.reasons))

    @property
    def headline(self) -> str:
        """How many nodes rest on rules with evidence."""
        return f"{_count(self)} nodes {_KNOWN}" if self.doubts else f"all {self.nodes:,} nodes {_KNOWN}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is doubted most, each with the first nodes that it concerns, and how much more there is."""
        shown = list(self.doubts.items())[:MOST_DOUBTS]
        listed = [f"{len(names)} by {doubt}: {_several(names)}" for doubt, names in shown]
        if rest := len(self.doubts) - len(shown):
            listed.append(f"and {rest} other reasons" if rest > 1 else "and another reason")
        return tuple(listed)


def in_short(conversions: Sequence[Known]) -> str:
    """How far several conversions of one network are known, without names: from the worst to the best."""
    doubts = {doubt for known in conversions for doubt in known.doubts}
    if not doubts:
        return f"all nodes {_KNOWN}"
    ordered = sorted(conversions, key=lambda known: 1 - known.doubtful / known.nodes)
    counts = dict.fromkeys(map(_count, (ordered[0], ordered[-1])))
    reasons = "1 reason to doubt" if len(doubts) == 1 else f"{len(doubts)} reasons to doubt"
    return f"{' to '.join(counts)} nodes {_KNOWN}; {reasons} the others"


def _count(known: Known) -> str:
    return f"{known.nodes - known.doubtful:,} of {known.nodes:,}"


def _several(names: tuple[str, ...]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
