"""What is said of a finished sweep: against other references, why it differs, what is kept for drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from harness.gates.baseline import Baseline, load_baseline, read_baseline
from harness.gates.choice import Choice, choose
from harness.gates.explanation import explain
from harness.gates.judgement import Judgement, References
from harness.gates.nights import WATCHED, Night, trial_night
from harness.gates.promised import float_checks
from harness.gates.shipped import CHECK as SHIPPED
from harness.gates.shipped import ship_checks
from harness.gates.verdicts import Check
from harness.report.results import Sweep
from harness.shipping.record import ShippedTrial
from harness.suites.suite import Suite
from harness.sweeps.written import write_sweep
from harness.trials.origins import ModelOrigin
from harness.trials.trial import TrialResult, TrialSpec, TrialStore


@dataclass(frozen=True)
class SweepDecision:
    """What follows from the results of a sweep.

    Attributes:
        judgement: verdicts and checks.
        choices: the recommended setting of every model and march.
        ships: what the user's toolchain built of the recommended trials.
    """

    judgement: Judgement
    choices: tuple[Choice, ...]
    ships: tuple[ShippedTrial, ...] = ()

    def with_ships(
        self,
        ships: Sequence[ShippedTrial],
        accepted: Baseline | None,
        against: str,
        suite: Suite,
        results: Sequence[TrialResult],
        store: TrialStore,
    ) -> SweepDecision:
        """The decision once it is known what was built: what is built otherwise is not recommended.

        Args:
            ships: what was built.
            accepted: what it is compared with.
            against: name of that, in messages.
            suite: what was swept.
            results: of the trials.
            store: of the trials.
        """
        if not ships:
            return self
        judgement = self.judgement.with_checks(ship_checks(ships, accepted, against))
        return SweepDecision(judgement, choose(results, store, suite.gates, judgement.verdicts), tuple(ships))


def decided(
    suite: Suite,
    results: Sequence[TrialResult],
    specs: Sequence[TrialSpec],
    references: References,
    store: TrialStore,
    models: Mapping[str, ModelOrigin],
    checks: Mapping[str, Check] = MappingProxyType({}),
) -> SweepDecision:
    """Verdicts and recommendations from ``results`` of the planned ``specs``, with what ``checks`` say."""
    judgement = references.judge(suite, results, store, specs).with_checks(checks)
    judgement = judgement.with_checks(float_checks(results, models))
    return SweepDecision(judgement, choose(results, store, suite.gates, judgement.verdicts))


def judged_anew(sweep: Sweep, references: References, workdir: Path) -> Sweep:
    """``sweep`` against other ``references``; its files are written anew, so that all say the same."""
    store, summary = TrialStore(workdir / "trials"), sweep.summary
    baseline = load_baseline(references.baseline, summary.suite) if references.baseline else None
    decision = decided(summary.suite, sweep.results, summary.trials, references, store, summary.origin.models)
    decision = decision.with_ships(summary.ships, baseline, "the baseline", summary.suite, sweep.results, store)
    said = {"judgement": decision.judgement, "choices": decision.choices}
    judged = explained(replace(sweep, summary=summary.model_copy(update=said)), baseline, store)
    write_sweep(judged, workdir)
    return judged


def explained(sweep: Sweep, baseline: Baseline | None, store: TrialStore) -> Sweep:
    """``sweep`` with the reasons why it differs from ``baseline``; a shipped file that differs has its own."""
    if baseline is None:
        return replace(sweep, summary=sweep.summary.model_copy(update={"explanation": None}))
    verdicts = {verdict.trial: verdict.without(SHIPPED).verdict for verdict in sweep.verdicts}
    found = explain(baseline, sweep.summary.origin, sweep.results, verdicts, store)
    return replace(sweep, summary=sweep.summary.model_copy(update={"explanation": found}))


def as_night(sweep: Sweep, anchor: Path | None, store: TrialStore) -> Night:
    """What is kept of ``sweep`` to follow drift since the baseline in the file ``anchor``."""
    summary, accepted = sweep.summary, read_baseline(anchor) if anchor else None
    trials = {
        result.spec.id: kept
        for result in sweep.results
        if (kept := trial_night(result, store.predictions(result.spec.key) if result.ok else {}, accepted)) is not None
    }
    known = (
        {}
        if accepted is None
        else {trial: accepted.trials[trial].figures for trial in trials if trial in accepted.trials}
    )
    before = {
        figure: {trial: figures[figure].value for trial, figures in known.items() if figure in figures}
        for figure in (WATCHED if known else ())
    }
    return Night(
        sweep=summary.id,
        started_at=summary.started_at,
        version=summary.suite.version,
        verdict=sweep.verdict,
        engine=summary.engine,
        commit=summary.commit,
        anchor=before,
        trials=trials,
    )


def best_settings(sweep: Sweep) -> list[str]:
    """The setting that is recommended for every model and march that has one, in words."""
    named = {result.spec.key: result.spec.id for result in sweep.results}
    return [named[choice.best] for choice in sweep.summary.choices if choice.best is not None]
