"""What a new baseline accepts: figures that differ from the old one, and losses beyond noise among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.gates.baseline import ACCURACY, Baseline, gated
from harness.gates.judgement import Judgement
from harness.gates.verdicts import Verdict
from harness.trials.trial import TrialResult

_NAMED = 20
"""Lines up to which differences are shown."""
_SAME = 1e-9
"""Baselines keep nine digits."""


@dataclass(frozen=True)
class Acceptance:
    """What a new baseline accepts.

    Attributes:
        changes: a line per trial whose accuracy differs, or another figure beyond its tolerance; trials that are new
            or gone.
        losses: a line per figure that is worse than the old baseline allows: beyond tolerance and, of accuracy, noise.
    """

    changes: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The changes, the first of them in full."""
        return _first(self.changes) or ["nothing differs from the baseline before"]

    def refusal(self) -> str:
        """Why a baseline with such losses is not written."""
        listed = "".join(f"\n  {line}" for line in _first(self.losses))
        return f"not written, since {len(self.losses)} figures are worse than tolerance and noise explain:{listed}"


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    return [*lines[:_NAMED], *more]


def acceptance(old: Baseline, judgement: Judgement, results: Sequence[TrialResult]) -> Acceptance:
    """What ``results`` as a baseline would accept in the place of ``old``.

    Args:
        old: the baseline so far.
        judgement: of the results against it.
        results: of the suite's trials.
    """
    changes, losses = [], []
    for result in results:
        accepted = old.trials.get(result.spec.id)
        if accepted is None:
            changes.append(f"{result.spec.id}: new")
            continue
        figures = result.metrics()
        compared = {ACCURACY, *gated([*figures, *accepted.figures])}
        checks = [check for check in judgement.of(result.spec.id).checks if check.name in compared]
        beyond = {check.name for check in checks if check.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)}
        before = {name: reference.value for name, reference in accepted.figures.items()}
        words = [
            f"{name} {before[name]:.6g} → {figures[name]:.6g}"
            for name in before
            if name in figures and (name in beyond or (name == ACCURACY and _differs(before, figures)))
        ]
        if words:
            changes.append(f"{result.spec.id}: {', '.join(words)}")
        worse = [check for check in checks if check.verdict is Verdict.REGRESSION]
        losses += [f"{result.spec.id}: {check.name}: {check.message}" for check in worse]
    have = {result.spec.id for result in results}
    changes += [f"{name}: gone" for name in old.trials if name not in have]
    return Acceptance(tuple(changes), tuple(losses))


def _differs(before: Mapping[str, float], now: Mapping[str, float]) -> bool:
    return abs(before[ACCURACY] - now[ACCURACY]) > _SAME
