"""One sweep from suite to report: what ``ptqlab run`` and the pytest gate both do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path

from harness.backends.pipeline import environment
from harness.cards.folders import CardFolders
from harness.execution.coordinator import AtWork, Observer, Plan, run_sweep
from harness.execution.planning import resolve
from harness.execution.recheck import recheck, tonights
from harness.gates.baseline import Baseline, load_baseline
from harness.gates.judgement import References
from harness.gates.nights import append_night, read_nights
from harness.gates.verdicts import Check
from harness.report.columns import own_columns
from harness.report.results import Sweep, SweepSummary, sweep_folder
from harness.shipping.sweep import ship_trials
from harness.suites.suite import Suite
from harness.sweeps.bisecting import bisected
from harness.sweeps.earlier import keep_earlier
from harness.sweeps.judging import SweepDecision, as_night, best_settings, decided, explained
from harness.sweeps.planning import expansion_of, within
from harness.sweeps.resuming import Running, begin, end
from harness.sweeps.written import write_baseline, write_sweep
from harness.tracking.record import Recorder
from harness.tracking.sync import PendingRecord, SharedSeconds, keep
from harness.tracking.tracker import Closing, RecordedShip, RunStatus
from harness.tracking.trial_run import sweep_metrics
from harness.trials.origins import SweepOrigin, keep_environment, origins_of
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec
from harness.trials.version import engine_version, git_commit


def run_suite(
    suite: Suite,
    plan: Plan,
    *,
    references: References | None = None,
    specs: Sequence[TrialSpec] | None = None,
    record: bool = True,
    tracking_uri: str | None = None,
    observers: Iterable[Observer] = (),
    night: bool = False,
    recheck_nights: int = 0,
    explain_seconds: float = 0.0,
    asked: str = "",
    tell: Callable[[str], None] | None = None,
) -> Sweep:
    """Run all trials of a suite; leave results, table, report and record.

    Args:
        suite: what to sweep.
        plan: how to run.
        references: what the gate compares with; None for no gate.
        specs: of the suite's trials, if they are known already.
        record: whether the suite's tracker gets a record.
        tracking_uri: of the tracker's store; None for one in the working directory.
        observers: told of everything that happens.
        night: whether the sweep is one of a series whose drift is followed.
        recheck_nights: number of nights within which every reused trial is computed again once and compared; 0
            for never.
        explain_seconds: that a bisection of the first trial that got worse may take; 0 for none.
        asked: name or file of the suite with which the command continues after an interruption.
        tell: told what the user's toolchain is at, where the suite has trials built.

    Raises:
        PtqlabError: suite, cards, data or baseline are wrong. A trial that fails does not raise.
        KeyboardInterrupt: after the record was closed; finished trials are kept.
    """
    references = references or References()
    start = _begun(suite, plan, references, specs, asked)
    store, workdir = plan.bench.store, plan.bench.workdir
    folder = sweep_folder(workdir, suite.name)
    recorder = Recorder(suite, start.origin.sweep, workdir, store, tracking_uri) if record else None
    tally = _Tally()
    try:
        watching: list[Observer] = [tally, *([recorder] if recorder else []), *observers]
        results = run_sweep(start.specs, within(suite.budget, plan), watching)
        checks = _rechecked(start.specs, tally, recheck_nights, plan)
        decision = _decided(start, plan, references, results, checks, night=night, tell=tell)
        summary = _summary(start, results, tally, decision, recorder, len(checks))
        sweep = _explained(Sweep(summary, tuple(results)), start.accepted, plan, explain_seconds)
        if night:
            append_night(as_night(sweep, references.anchor, store), folder)
        earlier = keep_earlier(sweep.summary, workdir)
        files = [*write_sweep(sweep, workdir), *write_baseline(sweep, start.accepted, store, workdir)]
    except BaseException:
        if recorder:
            recorder.close(Closing(status=RunStatus.KILLED))
        raise
    end(suite.name, workdir)
    problem = _close(recorder, sweep, files, workdir, tally.reused) if recorder else None
    return replace(sweep, record_problem=problem, earlier=earlier)


@dataclass(frozen=True)
class _Start:
    """A sweep of which nothing has run yet.

    Attributes:
        suite: what is swept.
        specs: all trials.
        origin: what they are made of.
        accepted: the baseline of the gate, if there is one.
        asked: name or file of the suite with which the command continues after an interruption.
    """

    suite: Suite
    specs: Sequence[TrialSpec]
    origin: SweepOrigin
    accepted: Baseline | None
    asked: str


def _begun(suite: Suite, plan: Plan, references: References, specs: Sequence[TrialSpec] | None, asked: str) -> _Start:
    """Note in the working directory that a sweep runs.

    What would fail after hours is refused before: wrong references, columns that are registered wrongly, a damaged
    file of nights, a folder that cannot be written.
    """
    workdir = plan.bench.workdir
    accepted = load_baseline(references.baseline, suite) if references.baseline else None
    own_columns()
    if references.anchor:
        load_baseline(references.anchor, suite)
    specs = resolve(suite, expansion_of(suite).points) if specs is None else list(specs)
    origin = _origin(uuid.uuid4().hex[:16], specs, workdir)
    read_nights(sweep_folder(workdir, suite.name))
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    begin(Running(suite=suite.name, asked=asked or suite.name, started_at=now, trials=tuple(specs)), workdir)
    return _Start(suite, specs, origin, accepted, asked)


def _rechecked(specs: Sequence[TrialSpec], tally: _Tally, nights: int, plan: Plan) -> dict[str, Check]:
    """Trials whose turn it is tonight, computed again and compared with the results that were reused."""
    reused = [spec for spec in specs if spec.key in tally.reused]
    return recheck(tonights(reused, nights, date.today().toordinal()), plan)


def _decided(
    start: _Start,
    plan: Plan,
    references: References,
    results: Sequence[TrialResult],
    checks: Mapping[str, Check],
    *,
    night: bool,
    tell: Callable[[str], None] | None,
) -> SweepDecision:
    """Verdicts and recommendations; where the suite asks for it, also of what the user's toolchain builds."""
    suite, models = start.suite, start.origin.models
    decision = decided(suite, results, start.specs, references, plan.bench.store, models, checks)
    if not suite.ship:
        return decision
    ships = ship_trials(suite, results, decision.choices, plan.bench, models, tell)
    against = "last night" if night else "the baseline"
    return decision.with_ships(ships, start.accepted, against, suite, results, plan.bench.store)


def _explained(sweep: Sweep, accepted: Baseline | None, plan: Plan, seconds: float) -> Sweep:
    """``sweep`` with the reasons why it differs from ``accepted``, and a bisection that takes so long at the most."""
    told = explained(sweep, accepted, plan.bench.store)
    folder = sweep_folder(plan.bench.workdir, sweep.summary.suite.name)
    return replace(told, summary=told.summary.model_copy(update={"explanation": bisected(told, folder, seconds)}))


def _summary(
    start: _Start,
    results: Sequence[TrialResult],
    tally: _Tally,
    decision: SweepDecision,
    recorder: Recorder | None,
    rechecked: int,
) -> SweepSummary:
    """What is known of a sweep once its trials are there."""
    return SweepSummary(
        id=start.origin.sweep,
        suite=start.suite,
        asked=start.asked,
        cards=CardFolders.here(),
        trials=tuple(start.specs),
        started_at=tally.started_at,
        seconds=time.perf_counter() - tally.began,
        reused=len(tally.reused),
        rechecked=rechecked,
        left=len(start.specs) - len(results),
        shared=tuple(tally.shared),
        engine=engine_version(),
        commit=git_commit(),
        record=recorder.place if recorder else None,
        origin=start.origin,
        judgement=decision.judgement,
        choices=decision.choices,
        ships=decision.ships,
    )


def _origin(sweep: str, specs: Sequence[TrialSpec], workdir: Path) -> SweepOrigin:
    """What a sweep of ``specs`` is made of; what computes each is kept in the working directory too."""
    version = engine_version()
    for engine, settings in {spec.engine: spec.settings for spec in specs}.items():
        keep_environment(environment([settings], version), engine, workdir)
    used = list(dict.fromkeys(spec.settings for spec in specs))
    return SweepOrigin(sweep=sweep, models=origins_of(specs), environment=environment(used, version))


@dataclass
class _Tally:
    """Counts what happens in a sweep."""

    began: float = field(default_factory=time.perf_counter)
    started_at: str = ""
    reused: set[str] = field(default_factory=set)
    shared: list[SharedSeconds] = field(default_factory=list)

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        self.started_at = datetime.now().astimezone().isoformat(timespec="seconds")

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        spec = preparation.specs[0]
        self.shared.append(SharedSeconds(model=spec.model, march=spec.march.value, seconds=dict(prepared.seconds)))

    def at_work(self, trials: Sequence[AtWork]) -> None:
        """Nothing to count."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        if reused:
            self.reused.add(result.spec.key)


def _close(recorder: Recorder, sweep: Sweep, artifacts: Sequence[Path], workdir: Path, reused: set[str]) -> str | None:
    """Finish the record of ``sweep``, or keep what it is to be for ``ptqlab sync``."""
    summary = sweep.summary
    verdicts = {result.spec.key: sweep.verdict_of(result.spec.id).value for result in sweep.results}
    closing = Closing(
        status=RunStatus.FAILED if sweep.failed else RunStatus.FINISHED,
        metrics=sweep_metrics(sweep.results),
        tags={
            "lab.failed": str(len(sweep.failed)),
            "lab.reused": str(summary.reused),
            "lab.seconds": f"{summary.seconds:.1f}",
            "lab.best": "; ".join(best_settings(sweep)),
        },
        verdicts=verdicts | {"": sweep.verdict.value},
        twins=sweep.twins,
        ships={
            each.key: RecordedShip(text=str(each), toolchain=each.toolchain, fresh=each.fresh) for each in summary.ships
        },
    )
    problem = recorder.close(closing, artifacts)
    if problem is not None:
        record = PendingRecord(
            sweep=summary.id,
            suite=summary.suite,
            trials=tuple(result.spec for result in sweep.results),
            reused=frozenset(reused),
            shared=summary.shared,
            started_at=summary.started_at,
            tracker=recorder.place.tracker,
            tracking_uri=recorder.place.uri,
            closing=closing,
        )
        keep(record, artifacts, workdir)
    return problem
