"""Scales as constraints between tensors, and what follows from all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from engine.graph.scales import Gate


class How(Enum):
    """How strongly a tensor takes the scale of another."""

    TAKES = "takes it, whatever it took before"
    IF_FREE = "takes it, unless it takes another one already"
    WITH_HEAD = "the tensor whose scale it has takes it, unless it follows by a function or something computes with it"
    AS_MEASURED = "takes what its own values give the other, unless it takes another one already"
    LEADS = "the tensor whose scale it has takes it"
    MEASURED = "takes what its own values give the other, whatever that has itself"


@dataclass(frozen=True)
class ScaleOf:
    """``tensor`` takes the scale of ``of``."""

    tensor: str
    of: str
    how: How


@dataclass(frozen=True)
class FixedThreshold:
    """The threshold of ``tensor`` is ``threshold``, unless it takes the scale of another."""

    tensor: str
    threshold: float


@dataclass(frozen=True)
class LargestOf:
    """The threshold of ``tensor`` is the largest of those of ``operands``."""

    tensor: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class GateOf:
    """The threshold of ``tensor`` is ``gate`` of that of ``of``, unless it takes the scale of another."""

    tensor: str
    of: str
    gate: Gate


@dataclass(frozen=True)
class HandedOver:
    """The scale of ``tensor`` becomes that of ``of``; ``others``, which have it, keep what values gave it before.

    ``parts_of`` is where they got it: ``tensor``, or what it leads.
    """

    tensor: str
    of: str
    others: tuple[str, ...]
    parts_of: str


Constraint = ScaleOf | FixedThreshold | LargestOf | GateOf | HandedOver


class Scales:
    """Tensors of one scale: a forest, in which every tensor points at the one whose scale it takes.

    Args:
        computed_with: tensors that an operator reads which does more than move them.
        pinned: tensors whose thresholds follow from others by a function, which no reader changes.
    """

    def __init__(self, computed_with: Iterable[str], pinned: Iterable[str] = ()) -> None:
        self._computed_with, self._pinned = frozenset(computed_with), frozenset(pinned)
        self._led: set[str] = set()
        self.measured: dict[str, str] = {}
        self._of: dict[str, str] = {}
        self._rules: dict[str, str] = {}
        self.fixed: dict[str, float] = {}
        self.largest: dict[str, tuple[str, ...]] = {}
        self.gated: dict[str, GateOf] = {}

    def add(self, constraint: Constraint, rule: str) -> None:
        """Let ``constraint``, which ``rule`` demands, hold as far as those before allow it."""
        match constraint:
            case FixedThreshold(tensor, threshold):
                if tensor not in self._of:
                    self.fixed[tensor] = threshold
                    self._rules[tensor] = rule
            case GateOf(tensor):
                if tensor not in self._of:
                    self.gated[tensor] = constraint
                    self._rules[tensor] = rule
            case LargestOf(tensor, operands):
                self.largest[tensor] = operands
                self._rules[tensor] = rule
            case HandedOver(tensor, of, others, parts_of):
                head = self.root(tensor)
                if self.root(of) == head or head in self.fixed:
                    return
                for path in map(self.path, others):
                    if parts_of in path[1:]:
                        last = path[path.index(parts_of) - 1]
                        del self._of[last]
                        self.measured[last] = head
                self._take(tensor, of, rule)
            case ScaleOf(tensor, of, How.TAKES):
                if tensor not in self.path(of):
                    self._take(tensor, of, rule)
            case ScaleOf(tensor, of, How.IF_FREE):
                if tensor not in self._of and self.root(of) != tensor:
                    self._take(tensor, of, rule)
            case ScaleOf(tensor, of, How.AS_MEASURED):
                if tensor not in self._of and not self._led.isdisjoint(self.path(of)[1:]):
                    self.measured[tensor], self._rules[tensor] = of, rule
                elif tensor not in self._of and self.root(of) != tensor:
                    self._take(tensor, of, rule)
            case ScaleOf(tensor, of, How.MEASURED):
                self.measured[tensor], self._rules[tensor] = of, rule
            case ScaleOf(tensor, of, How.WITH_HEAD):
                head = self.root(tensor)
                is_free = head not in self._pinned and head not in self.measured
                is_own = is_free and self._group(head).isdisjoint(self._computed_with)
                if is_own and self.root(of) != head:
                    self._take(head, of, rule)
            case ScaleOf(tensor, of, How.LEADS):
                if (head := self.root(tensor)) != self.root(of):
                    self._take(head, of, rule)
                    self._led.add(head)

    def root(self, tensor: str) -> str:
        """The tensor whose scale ``tensor`` has."""
        return self.path(tensor)[-1]

    def rules(self, tensor: str) -> tuple[str, ...]:
        """Ids of the rules by which ``tensor`` has its scale, its own link first."""
        return tuple(dict.fromkeys(self._rules[each] for each in self.path(tensor) if each in self._rules))

    def path(self, tensor: str) -> list[str]:
        """``tensor`` and what it points at, up to the one whose scale all have."""
        found = [tensor]
        while found[-1] in self._of:
            found.append(self._of[found[-1]])
        return found

    def _take(self, tensor: str, of: str, rule: str) -> None:
        self._of[tensor], self._rules[tensor] = of, rule

    def _group(self, head: str) -> set[str]:
        """All tensors that have the scale of ``head``, but for those which it leads."""
        return {
            tensor
            for tensor in (*self._of, head)
            if (path := self.path(tensor))[-1] == head and self._led.isdisjoint(path)
        }
