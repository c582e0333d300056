"""Verdicts: what a gate says of a figure, a trial and a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of a gate, the worst last. NO GATE: there are figures, and no baseline to compare them with."""

    PASS = "PASS"
    NO_GATE = "NO GATE"
    IMPROVEMENT = "IMPROVEMENT"
    MISSING = "MISSING"
    REGRESSION = "REGRESSION"
    ERROR = "ERROR"

    @property
    def is_good(self) -> bool:
        """Whether nothing speaks against the result: it passes, or there is nothing to compare it with."""
        return self in (Verdict.PASS, Verdict.NO_GATE)


_SEVERITY = {verdict: severity for severity, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Check:
    """One figure against its reference.

    Attributes:
        name: of the figure.
        verdict: of this figure.
        message: figures and limits in words.
    """

    name: str
    verdict: Verdict
    message: str


@dataclass(frozen=True)
class TrialVerdict:
    """A trial against its baseline."""

    trial: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all checks."""
        return worst(check.verdict for check in self.checks)

    def without(self, name: str) -> TrialVerdict:
        """The same without the check ``name``."""
        return TrialVerdict(self.trial, tuple(check for check in self.checks if check.name != name))

    @property
    def message(self) -> str:
        """What keeps it from passing, one line per check; empty if it passes."""
        return "\n".join(f"{c.name}: {c.verdict}: {c.message}" for c in self.checks if not c.verdict.is_good)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of ``verdicts``; PASS if there are none."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.PASS)
