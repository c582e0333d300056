"""A rule about the original: for which nodes or tensors it holds, what it decides, and which other rules it beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from engine.chips import ChipFamily
from engine.terms import Compatibility

S = TypeVar("S")
"""What rules of a table look at: a node or tensor with the facts about it."""
D = TypeVar("D")
"""What they decide."""

ALL = frozenset(ChipFamily)
BERNOULLI = frozenset({ChipFamily.BERNOULLI})
BAYES = frozenset({ChipFamily.BAYES})


@dataclass(frozen=True)
class Pattern(Generic[S]):
    """Something that holds of a node or tensor or does not. Patterns combine with ``&``, ``|`` and ``~``.

    Attributes:
        says: in words, as the end of "a node that ...".
        holds: whether it does.
        size: how many single patterns it is made of.
    """

    says: str
    holds: Callable[[S], bool]
    size: int = 1

    def __and__(self, other: Pattern[S]) -> Pattern[S]:
        return Pattern(
            f"{self.says} and {other.says}", lambda site: self.holds(site) and other.holds(site), self.size + other.size
        )

    def __or__(self, other: Pattern[S]) -> Pattern[S]:
        return Pattern(
            f"({self.says} or {other.says})",
            lambda site: self.holds(site) or other.holds(site),
            self.size + other.size,
        )

    def __invert__(self) -> Pattern[S]:
        return Pattern(f"not ({self.says})", lambda site: not self.holds(site), self.size)


@dataclass(frozen=True)
class MeasuredApart:
    """Evidence for a rule that no replayed placement shows, such as one about integers or thresholds.

    Attributes:
        how: it was measured.
        networks: how many show it.
    """

    how: str
    networks: int


@dataclass(frozen=True)
class Rule(Generic[S, D]):
    """One rule.

    Attributes:
        id: ``<table>.<name>``; kept in models, printed by ``explain``.
        says: what the original does, one sentence.
        when: what it looks for.
        then: what it decides.
        chips: the families of chips that it holds for.
        over: ids of the rules of the same table that it beats where both fit.
        instead: what ``compatibility: clean`` does, where the rule costs accuracy; else empty.
        advice: what a user does who loses accuracy by a rule that is always followed; empty where it costs none.
        measured: evidence that is not generated, for a rule that no replay shows.
    """

    id: str
    says: str
    when: Pattern[S]
    then: D
    chips: frozenset[ChipFamily] = ALL
    over: tuple[str, ...] = ()
    instead: str = ""
    advice: str = ""
    measured: MeasuredApart | None = None

    @property
    def costs_accuracy(self) -> bool:
        """Whether a float network loses accuracy by it, so that users are told."""
        return bool(self.instead or self.advice)

    def imitated(self, compatibility: Compatibility) -> bool:
        """Whether the rule is followed: always, or with ``compatibility: original`` where it need not be."""
        return compatibility is Compatibility.ORIGINAL or not self.instead


class Table(Generic[S, D]):
    """Rules of which one decides.

    Args:
        name: what the ids begin with.
        rules: any order.
        seen: gets the ids of the rules that decide something; None where nobody wants to know.

    Raises:
        ValueError: two rules have one id, one beats a rule that is not there, or rules beat each other in a circle.
    """

    def __init__(self, name: str, rules: Iterable[Rule[S, D]], seen: set[str] | None = None) -> None:
        self.name = name
        self._seen = seen
        given = list(rules)
        self._by_id = {rule.id: rule for rule in given}
        if len(self._by_id) < len(given):
            raise ValueError(f"two rules of table {name} have one id")
        for rule in given:
            if not rule.id.startswith(f"{name}."):
                raise ValueError(f"rule {rule.id} is in table {name}")
            if unknown := set(rule.over) - self._by_id.keys():
                raise ValueError(f"rule {rule.id} is over {sorted(unknown)}, which table {name} does not have")
        self._beaten = {rule.id: self._all_beaten(rule) for rule in given}
        for rule in given:
            if rule.id in self._beaten[rule.id]:
                raise ValueError(f"rule {rule.id} is over itself")

    def __iter__(self) -> Iterator[Rule[S, D]]:
        return iter(self._by_id.values())

    def without(self, *ids: str) -> Table[S, D]:
        """The table that lacks some rules; those that were over them are over what these were over."""
        kept = (rule for rule in self if rule.id not in ids)
        return Table(
            self.name, [replace(rule, over=tuple(sorted(self._beaten[rule.id].difference(ids)))) for rule in kept]
        )

    def watched(self, seen: set[str]) -> Table[S, D]:
        """This table, which adds to ``seen`` the ids of the rules that decide something."""
        return Table(self.name, self, seen)

    def fitting(self, site: S, family: ChipFamily) -> list[Rule[S, D]]:
        """The rules for ``family`` that fit ``site`` and that no other such rule is over; one in a sound table."""
        return list(self._fitting(site, family))

    def decide(self, site: S, family: ChipFamily) -> Rule[S, D] | None:
        """The rule that decides ``site``; None where none fits."""
        rule = next(self._fitting(site, family), None)
        if rule is not None and self._seen is not None:
            self._seen.add(rule.id)
        return rule

    def _fitting(self, site: S, family: ChipFamily) -> Iterator[Rule[S, D]]:
        beaten: set[str] = set()
        for rule in self._in_order:
            if rule.id not in beaten and family in rule.chips and rule.when.holds(site):
                yield rule
                beaten |= self._beaten[rule.id]

    @cached_property
    def _in_order(self) -> tuple[Rule[S, D], ...]:
        """Every rule behind all that are over it, so that what is beaten need not be looked at."""
        return tuple(sorted(self, key=lambda rule: -len(self._beaten[rule.id])))

    def _all_beaten(self, rule: Rule[S, D]) -> frozenset[str]:
        """Ids of the rules that ``rule`` is over, also by way of others."""
        found: set[str] = set()
        pending = list(rule.over)
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += self._by_id[current].over
        return frozenset(found)
