"""Sweeps judged anew."""

from __future__ import annotations

from pathlib import Path

from harness.gates.judgement import References
from harness.report.results import Sweep
from harness.trials.trial import TrialStore


def judged(sweep: Sweep, references: References, folder: Path) -> Sweep:
    """``sweep`` with the judgement of its results."""
    summary = sweep.summary
    judgement = references.judge(summary.suite, sweep.results, TrialStore(folder), summary.trials)
    return Sweep(summary.model_copy(update={"judgement": judgement}), sweep.results)
