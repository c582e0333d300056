"""The judgement of a sweep: made once, kept with it, and what every page, command and record repeats."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.files.strict_yaml import StrictModel
from harness.gates.baseline import load_baseline
from harness.gates.judge import judge_sweep
from harness.gates.verdicts import Check, TrialVerdict, Verdict, worst
from harness.suites.suite import Suite
from harness.trials.trial import TrialResult, TrialSpec, TrialStore


class Judgement(StrictModel):
    """What the gate said of a sweep.

    Attributes:
        baseline: file of the baseline; None without one.
        baseline_digest: SHA-256 of its content; empty without one.
        anchor: file of the anchor; None without one.
        verdicts: of all trials of the suite, and of entries of the baseline that the suite has no trial of.
    """

    baseline: Path | None = None
    baseline_digest: str = ""
    anchor: Path | None = None
    verdicts: tuple[TrialVerdict, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of all trials."""
        return worst(verdict.verdict for verdict in self.verdicts)

    def with_checks(self, checks: Mapping[str, Check]) -> Judgement:
        """This judgement with an additional check of some trials, by their ids."""
        verdicts = [
            TrialVerdict(each.trial, (*each.checks, checks[each.trial])) if each.trial in checks else each
            for each in self.verdicts
        ]
        return self.model_copy(update={"verdicts": tuple(verdicts)})

    def of(self, trial: str) -> TrialVerdict:
        """The verdict on the trial with id ``trial``; without checks where it has none."""
        checks = [check for verdict in self.verdicts if verdict.trial == trial for check in verdict.checks]
        return TrialVerdict(trial, tuple(checks))


class References(StrictModel):
    """What a sweep is compared with.

    Attributes:
        baseline: file of the accepted or last good figures; None for no gate.
        anchor: file of the fixed figures; None without an anchor.
    """

    baseline: Path | None = None
    anchor: Path | None = None

    def judge(
        self, suite: Suite, results: Sequence[TrialResult], store: TrialStore, planned: Sequence[TrialSpec]
    ) -> Judgement:
        """The judgement of ``results``.

        Raises:
            ConfigError: a file is missing, damaged or of another suite or version.
        """
        baseline = load_baseline(self.baseline, suite) if self.baseline else None
        anchor = load_baseline(self.anchor, suite) if self.anchor else None
        verdicts = judge_sweep(results, baseline, suite.gates, store, planned, anchor)
        return Judgement(
            baseline=self.baseline,
            baseline_digest=digest_of(self.baseline) if self.baseline else "",
            anchor=self.anchor,
            verdicts=tuple(verdicts),
        )


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
