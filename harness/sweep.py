"""One sweep from suite to report: what ``ptqlab run`` and the pytest gate both do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path

from pydantic import ValidationError

from engine.errors import ConfigError
from engine.ir import write_atomically
from engine.terms import SUPPORTED_CONVERSIONS
from harness.cache import save_json
from harness.execution.coordinator import Observer, Plan, run_sweep
from harness.execution.planning import resolve
from harness.execution.recheck import recheck, tonights
from harness.gates.baseline import (
    Baseline,
    baseline_path,
    load_baseline,
    read_baseline,
    save_baseline,
    updated_baseline,
)
from harness.gates.judgement import References
from harness.gates.nights import WATCHED, Night, append_night, read_nights, trial_night
from harness.report.results import (
    PARETO_FILE,
    PARQUET_FILE,
    REPORT_FILE,
    SWEEP_FILE,
    TABLE_FILE,
    Sweep,
    SweepSummary,
    pareto,
    pareto_yaml,
    sweep_folder,
    trials_csv,
    trials_parquet,
)
from harness.suites.expansion import Expansion, ModelFacts, expand
from harness.suites.suite import Budget, Suite, suite_path
from harness.tracking.mlflow_store import BASELINE_FILE, Closing, RunStatus, default_tracking_uri, fetch_baseline
from harness.tracking.record import Recorder
from harness.tracking.sync import PendingRecord, SharedSeconds, keep
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec, TrialStore
from harness.version import engine_version, git_commit
from harness.zoo.cards import ModelCard, list_cards


def plan_trials(suite: Suite) -> list[TrialSpec]:
    """Specs of all trials of ``suite``.

    Raises:
        PtqlabError: a selection matches nothing, or a card or its data are wrong or absent.
    """
    return resolve(suite, expansion_of(suite).points)


def expansion_of(suite: Suite, where: str | None = None) -> Expansion:
    """The expanded suite, with the models that there are; ``where``: what messages call it, None for its name."""
    return expand(suite, {card.name: facts_of(card) for card in list_cards()}, where)


def facts_of(card: ModelCard) -> ModelFacts:
    """What an expansion asks of the model."""
    return ModelFacts(
        labels=(*tags_of(card), f"task:{card.task.value}", f"dataset:{card.dataset.name}"),
        input_types=SUPPORTED_CONVERSIONS[card.input_spec.type_train],
        calibration_samples=card.dataset.calibration.count,
    )


def tags_of(card: ModelCard) -> tuple[str, ...]:
    """What selects a card: its tags, its task, and ``bundled`` or ``external``."""
    source = "bundled" if card.source.bundled is not None else "external"
    return tuple(dict.fromkeys((card.task.value, source, *card.tags)))


def find_baseline(name: str) -> Path | None:
    """The accepted baseline of the suite ``name``, a name or a file; None where there is none."""
    path = baseline_path(suite_path(name))
    return path if path.is_file() else None


def resolve_baseline(text: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> Path:
    """The file behind ``--baseline``: a path, or ``@alias`` for what the sweep with this alias left in MLflow.

    Raises:
        ConfigError: there is no such alias, or its store is away.
    """
    if not text.startswith("@"):
        return Path(text)
    folder = sweep_folder(workdir, suite.name) / "baselines" / text.removeprefix("@")
    return fetch_baseline(tracking_uri or default_tracking_uri(workdir), suite.name, text.removeprefix("@"), folder)


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
) -> Sweep:
    """Run all trials of a suite; leave results, table, report and MLflow record.

    Args:
        suite: what to sweep.
        plan: how to run.
        references: what the gate compares with; None for no gate.
        specs: of the suite's trials, if they are known already.
        record: whether MLflow gets a record.
        tracking_uri: of MLflow; None for a SQLite store in the working directory.
        observers: told of everything that happens.
        night: whether the sweep is one of a series whose drift is followed.
        recheck_nights: in so many nights every reused trial is computed anew once and compared with what is stored; 0
            for never.

    Raises:
        PtqlabError: suite, cards, data or baseline are wrong. A trial that fails does not raise.
        KeyboardInterrupt: after the record was closed; finished trials are kept.
    """
    references = references or References()
    accepted = load_baseline(references.baseline, suite) if references.baseline else None
    if references.anchor:
        load_baseline(references.anchor, suite)  # refused now, not after the sweep
    specs = plan_trials(suite) if specs is None else list(specs)
    store, workdir = plan.bench.store, plan.bench.workdir
    read_nights(sweep_folder(workdir, suite.name))  # a damaged file is refused now, not after the sweep
    sweep_id = uuid.uuid4().hex[:16]
    recorder = Recorder(suite, sweep_id, workdir, store, tracking_uri) if record else None
    tally = _Tally()
    started = time.perf_counter()
    try:
        results = run_sweep(specs, within(suite.budget, plan), [tally, *([recorder] if recorder else []), *observers])
    except BaseException:
        if recorder:
            recorder.close(Closing(status=RunStatus.KILLED))
        raise
    reused = [spec for spec in specs if spec.key in tally.reused]
    checks = recheck(tonights(reused, recheck_nights, date.today().toordinal()), plan)
    summary = SweepSummary(
        id=sweep_id,
        suite=suite,
        trials=tuple(specs),
        started_at=tally.started_at,
        seconds=time.perf_counter() - started,
        reused=len(tally.reused),
        rechecked=len(checks),
        left=len(specs) - len(results),
        shared=tuple(tally.shared),
        engine=engine_version(),
        commit=git_commit(),
        tracking_uri=recorder.tracking_uri if recorder else "",
        run=recorder.parent if recorder else "",
        judgement=references.judge(suite, results, store, specs).with_checks(checks),
    )
    sweep = Sweep(summary, tuple(results))
    if night:
        append_night(as_night(sweep, references.anchor, store), sweep_folder(workdir, suite.name))
    files = [*write_sweep(sweep, workdir), *_write_baseline(sweep, accepted, store, workdir)]
    problem = _close(recorder, sweep, files, workdir, tally.reused) if recorder else None
    return replace(sweep, record_problem=problem)


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


def within(budget: Budget, plan: Plan) -> Plan:
    """``plan`` with the limits of a suite; a time limit that the plan has itself counts more."""
    total = None if budget.minutes is None else 60 * budget.minutes
    per_trial = None if budget.minutes_per_trial is None else 60 * budget.minutes_per_trial
    return replace(plan, most_trials=budget.trials, seconds=total, time_limit=plan.time_limit or per_trial)


def load_sweep(workdir: Path, suite: str) -> Sweep:
    """The last sweep of ``suite``, with the judgement that was made of it then.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = sweep_folder(workdir, suite) / SWEEP_FILE
    try:
        summary = SweepSummary.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; run the suite first: ptqlab run {suite}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: written by another version of ptqlab; run the suite again") from error
    store = TrialStore(workdir / "trials")
    results = [result for spec in summary.trials if (result := store.get(spec)) is not None]
    if len(results) < len(summary.trials) - summary.left:
        raise ConfigError(
            f"{store.root}: {len(summary.trials) - len(results)} results of the sweep are gone; run the suite again"
        )
    return Sweep(summary, tuple(results))


def judged_anew(sweep: Sweep, references: References, workdir: Path) -> Sweep:
    """``sweep`` against other ``references``; its files are written anew, so that all say the same."""
    store = TrialStore(workdir / "trials")
    judgement = references.judge(sweep.summary.suite, sweep.results, store, sweep.summary.trials)
    judged = replace(sweep, summary=sweep.summary.model_copy(update={"judgement": judgement}))
    write_sweep(judged, workdir)
    return judged


def write_sweep(sweep: Sweep, workdir: Path) -> list[Path]:
    """Write summary, tables and report of ``sweep``; the files, readable for people first."""
    from harness.report.page import render  # plotly is slow to import

    folder = sweep_folder(workdir, sweep.summary.suite.name)
    save_json(sweep.summary, folder / SWEEP_FILE)
    write_atomically(folder / TABLE_FILE, trials_csv(sweep).encode())
    write_atomically(folder / PARQUET_FILE, trials_parquet(sweep))
    write_atomically(folder / PARETO_FILE, pareto_yaml(sweep.results).encode())
    write_atomically(folder / REPORT_FILE, render(sweep, workdir).encode())
    return [folder / name for name in (REPORT_FILE, TABLE_FILE, PARQUET_FILE, PARETO_FILE, SWEEP_FILE)]


def _write_baseline(sweep: Sweep, old: Baseline | None, store: TrialStore, workdir: Path) -> list[Path]:
    """Write what this sweep would be as a baseline; no file where a trial failed or is left."""
    path = sweep_folder(workdir, sweep.summary.suite.name) / BASELINE_FILE
    path.unlink(missing_ok=True)
    if sweep.summary.left:
        return []
    try:
        new = updated_baseline(old, sweep.summary.suite, sweep.results, store)
    except ConfigError:  # a trial failed that must not: no baseline for anybody
        return []
    save_baseline(new, path)
    return [path]


@dataclass
class _Tally:
    """Counts what happens in a sweep."""

    started_at: str = ""
    reused: set[str] = field(default_factory=set)
    shared: list[SharedSeconds] = field(default_factory=list)

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        self.started_at = datetime.now().astimezone().isoformat(timespec="seconds")

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        spec = preparation.specs[0]
        self.shared.append(SharedSeconds(model=spec.model, march=spec.march.value, seconds=dict(prepared.seconds)))

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        if reused:
            self.reused.add(result.spec.key)


def _close(recorder: Recorder, sweep: Sweep, artifacts: Sequence[Path], workdir: Path, reused: set[str]) -> str | None:
    """Finish the MLflow record of ``sweep``, or keep what it is to be for ``ptqlab sync``."""
    summary = sweep.summary
    verdicts = {result.spec.key: sweep.verdict_of(result.spec.id).value for result in sweep.results}
    closing = Closing(
        status=RunStatus.FAILED if sweep.failed else RunStatus.FINISHED,
        metrics={
            "trials": len(sweep.results),
            "trials.failed": len(sweep.failed),
            "trials.reused": summary.reused,
            "trials.pareto": len(pareto(sweep.results)),
            "seconds.sweep": summary.seconds,
        },
        verdicts=verdicts | {"": sweep.verdict.value},
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
            tracking_uri=recorder.tracking_uri,
            closing=closing,
        )
        keep(record, artifacts, workdir)
    return problem
