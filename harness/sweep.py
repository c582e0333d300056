"""One sweep from suite to report: what ``ptqlab run`` and the pytest gate both do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path

from pydantic import ValidationError

from engine.errors import ConfigError
from engine.ir import write_atomically
from engine.terms import SUPPORTED_CONVERSIONS, InputType
from harness.backends.pipeline import environment
from harness.bisecting import bisected
from harness.cache import load_json, save_json
from harness.card_folders import CardFolders
from harness.checking import refuse_mistakes
from harness.earlier import keep_earlier
from harness.execution.coordinator import AtWork, Observer, Plan, run_sweep
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
from harness.gates.choice import choose
from harness.gates.explanation import explain
from harness.gates.judgement import Judgement, References
from harness.gates.nights import WATCHED, Night, append_night, read_nights, trial_night
from harness.gates.promised import float_checks
from harness.gates.shipped import ship_checks
from harness.paths import find_beside
from harness.report.badge import JSON_FILE, SVG_FILE, badge_json, badge_svg
from harness.report.columns import own_columns
from harness.report.results import (
    PARETO_FILE,
    PARQUET_FILE,
    REPORT_FILE,
    SWEEP_FILE,
    TABLE_FILE,
    Sweep,
    SweepSummary,
    pareto_yaml,
    sweep_folder,
    trials_csv,
    trials_parquet,
)
from harness.report.summary import SUMMARY_FILE, markdown
from harness.resuming import Running, begin, end
from harness.shipping.sweep import ship_trials
from harness.suites.expansion import Expansion, ModelFacts, expand
from harness.suites.suite import Budget, Suite, suite_path
from harness.tracking.aliases import fetch_baseline
from harness.tracking.record import Recorder
from harness.tracking.sync import PendingRecord, SharedSeconds, keep
from harness.tracking.tracker import BASELINE_FILE, Closing, RecordedShip, RunStatus
from harness.tracking.trackers import chosen_tracker, open_tracker
from harness.tracking.trial_run import sweep_metrics
from harness.trials.origins import SweepOrigin, keep_environment, origins_of
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec, TrialStore
from harness.version import engine_version, git_commit
from harness.zoo.cards import ModelCard, list_cards


def plan_trials(suite: Suite) -> list[TrialSpec]:
    """Specs of all trials of ``suite``, whose cards are looked through for mistakes first.

    Raises:
        PtqlabError: a selection matches nothing, or a card or its data are wrong or absent.
    """
    points = expansion_of(suite).points
    refuse_mistakes(suite, points)
    return resolve(suite, points)


def expansion_of(suite: Suite, where: str | None = None) -> Expansion:
    """The expanded suite, with the models that there are; ``where``: what messages call it, None for its name."""
    return expand(suite, {card.name: facts_of(card) for card in list_cards()}, where)


def facts_of(card: ModelCard) -> ModelFacts:
    """What an expansion asks of the model."""
    return ModelFacts(
        labels=(*tags_of(card), f"task:{card.task.value}", f"dataset:{card.dataset.name}"),
        input_types=_run_time_types(card),
        calibration_samples=card.dataset.calibration.count,
        evaluation_samples=card.dataset.evaluation.count,
    )


def _run_time_types(card: ModelCard) -> list[InputType]:
    """What all image inputs of the model can be fed with; nothing where none of its inputs is an image."""
    images = [SUPPORTED_CONVERSIONS[spec.type_train] for spec in card.input_specs if spec.is_image]
    return [kind for kind in InputType if images and all(kind in kinds for kinds in images)]


def tags_of(card: ModelCard) -> tuple[str, ...]:
    """What selects a card: its tags, its task, and ``bundled`` or ``external``."""
    source = "bundled" if card.source.bundled is not None else "external"
    return tuple(dict.fromkeys((card.task.value, source, *card.tags)))


def find_baseline(name: str) -> Path | None:
    """The accepted baseline of the suite ``name``, a name or a file; None where there is none."""
    path = baseline_path(suite_path(name))
    return path if path.is_file() else None


def resolve_baseline(text: str, suite: Suite, workdir: Path, tracking_uri: str | None) -> Path:
    """The file behind ``--baseline``: a path, or ``@alias`` for what the sweep with this alias left in its record.

    Raises:
        ConfigError: there is no such alias, or its store is away.
    """
    if not text.startswith("@"):
        return Path(text)
    alias = text.removeprefix("@")
    tracker = open_tracker(chosen_tracker(suite.tracker), tracking_uri, workdir)
    return fetch_baseline(tracker, suite.name, alias, alias_folder(workdir, suite.name, alias))


def alias_folder(workdir: Path, suite: str, alias: str) -> Path:
    """Where the copy of the baseline that ``alias`` stands for is kept."""
    return sweep_folder(workdir, suite) / "baselines" / alias


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
    accepted = load_baseline(references.baseline, suite) if references.baseline else None
    own_columns()  # a wrong registration is refused now, not after the sweep
    if references.anchor:
        load_baseline(references.anchor, suite)  # refused now, not after the sweep
    specs = resolve(suite, expansion_of(suite).points) if specs is None else list(specs)
    store, workdir = plan.bench.store, plan.bench.workdir
    sweep_id = uuid.uuid4().hex[:16]
    origin = _origin(sweep_id, specs, workdir)  # a folder that cannot be written is refused now, not after the sweep
    read_nights(sweep_folder(workdir, suite.name))  # and so is a damaged file
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    begin(Running(suite=suite.name, asked=asked or suite.name, started_at=now, trials=tuple(specs)), workdir)
    recorder = Recorder(suite, sweep_id, workdir, store, tracking_uri) if record else None
    tally = _Tally()
    started = time.perf_counter()
    try:
        results = run_sweep(specs, within(suite.budget, plan), [tally, *([recorder] if recorder else []), *observers])
        reused = [spec for spec in specs if spec.key in tally.reused]
        checks = recheck(tonights(reused, recheck_nights, date.today().toordinal()), plan)
        judgement = references.judge(suite, results, store, specs).with_checks(checks)
        judgement = judgement.with_checks(float_checks(results, origin.models))
        choices = choose(results, store, suite.gates, judgement.verdicts)
        ships = ship_trials(suite, results, choices, plan.bench, origin.models, tell) if suite.ship else ()
        if ships:  # what is built otherwise is not recommended
            judgement = judgement.with_checks(ship_checks(ships, accepted, "last night" if night else "the baseline"))
            choices = choose(results, store, suite.gates, judgement.verdicts)
        summary = _summary(suite, specs, results, tally, origin, judgement, recorder).model_copy(
            update={
                "asked": asked,
                "cards": CardFolders.here(),
                "seconds": time.perf_counter() - started,
                "rechecked": len(checks),
                "choices": choices,
                "ships": ships,
            }
        )
        sweep = explained(Sweep(summary, tuple(results)), accepted, store)
        explanation = bisected(sweep, sweep_folder(workdir, suite.name), explain_seconds)
        sweep = replace(sweep, summary=sweep.summary.model_copy(update={"explanation": explanation}))
        if night:
            append_night(as_night(sweep, references.anchor, store), sweep_folder(workdir, suite.name))
        earlier = keep_earlier(sweep.summary, workdir)
        files = [*write_sweep(sweep, workdir), *_write_baseline(sweep, accepted, store, workdir)]
    except BaseException:
        if recorder:
            recorder.close(Closing(status=RunStatus.KILLED))
        raise
    end(suite.name, workdir)
    problem = _close(recorder, sweep, files, workdir, tally.reused) if recorder else None
    return replace(sweep, record_problem=problem, earlier=earlier)


def _summary(
    suite: Suite,
    specs: Sequence[TrialSpec],
    results: Sequence[TrialResult],
    tally: _Tally,
    origin: SweepOrigin,
    judgement: Judgement,
    recorder: Recorder | None,
) -> SweepSummary:
    """What is known of a sweep once its trials are there."""
    return SweepSummary(
        id=origin.sweep,
        suite=suite,
        trials=tuple(specs),
        started_at=tally.started_at,
        seconds=0.0,
        reused=len(tally.reused),
        left=len(specs) - len(results),
        shared=tuple(tally.shared),
        engine=engine_version(),
        commit=git_commit(),
        record=recorder.place if recorder else None,
        origin=origin,
        judgement=judgement,
    )


def _origin(sweep: str, specs: Sequence[TrialSpec], workdir: Path) -> SweepOrigin:
    """What a sweep of ``specs`` is made of; what computes each is kept in the working directory too."""
    version = engine_version()
    for engine, settings in {spec.engine: spec.settings for spec in specs}.items():
        keep_environment(environment([settings], version), engine, workdir)
    used = list(dict.fromkeys(spec.settings for spec in specs))
    return SweepOrigin(sweep=sweep, models=origins_of(specs), environment=environment(used, version))


def explained(sweep: Sweep, baseline: Baseline | None, store: TrialStore) -> Sweep:
    """``sweep`` with the reasons why it differs from ``baseline``."""
    if baseline is None:
        return replace(sweep, summary=sweep.summary.model_copy(update={"explanation": None}))
    verdicts = {verdict.trial: verdict.verdict for verdict in sweep.verdicts}
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


def within(budget: Budget, plan: Plan) -> Plan:
    """``plan`` with the limits of a suite; a time limit of the plan itself takes precedence."""
    total = None if budget.minutes is None else 60 * budget.minutes
    per_trial = None if budget.minutes_per_trial is None else 60 * budget.minutes_per_trial
    most = [count for count in (plan.most_trials, budget.trials) if count is not None]
    return replace(plan, most_trials=min(most, default=None), seconds=total, time_limit=plan.time_limit or per_trial)


def load_sweep(workdir: Path, suite: str) -> Sweep:
    """The last sweep of ``suite``, with the judgement that was made of it then.

    Cards are found from here on where the sweep found them.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = sweep_folder(workdir, suite) / SWEEP_FILE
    try:
        summary = load_json(SweepSummary, path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; run the suite first: ptqlab run {suite}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: written by another version of ptqlab; run the suite again") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; run the suite again") from error
    find_beside(summary.asked)
    summary.cards.search_first()
    store = TrialStore(workdir / "trials")
    results = [result for spec in summary.trials if (result := store.get(spec)) is not None]
    if len(results) < len(summary.trials) - summary.left:
        raise ConfigError(
            f"{store.root}: {len(summary.trials) - len(results)} results of the sweep have been removed; "
            "run the suite again"
        )
    return Sweep(summary, tuple(results))


def judged_anew(sweep: Sweep, references: References, workdir: Path) -> Sweep:
    """``sweep`` against other ``references``; its files are written anew, so that all say the same."""
    store = TrialStore(workdir / "trials")
    judgement = references.judge(sweep.summary.suite, sweep.results, store, sweep.summary.trials)
    judgement = judgement.with_checks(float_checks(sweep.results, sweep.summary.origin.models))
    baseline = load_baseline(references.baseline, sweep.summary.suite) if references.baseline else None
    judgement = judgement.with_checks(ship_checks(sweep.summary.ships, baseline))
    choices = choose(sweep.results, store, sweep.summary.suite.gates, judgement.verdicts)
    judged = replace(sweep, summary=sweep.summary.model_copy(update={"judgement": judgement, "choices": choices}))
    judged = explained(judged, baseline, store)
    write_sweep(judged, workdir)
    return judged


def write_sweep(sweep: Sweep, workdir: Path) -> list[Path]:
    """Write summary, tables and report of ``sweep``; the files, readable for people first."""
    from harness.report.page import render  # plotly is slow to import

    folder, store = sweep_folder(workdir, sweep.summary.suite.name), TrialStore(workdir / "trials")
    save_json(sweep.summary, folder / SWEEP_FILE)
    write_atomically(folder / TABLE_FILE, trials_csv(sweep, store).encode())
    write_atomically(folder / PARQUET_FILE, trials_parquet(sweep, store))
    write_atomically(folder / PARETO_FILE, pareto_yaml(sweep).encode())
    write_atomically(folder / REPORT_FILE, render(sweep, workdir).encode())
    write_atomically(folder / SUMMARY_FILE, markdown(sweep).encode())
    write_atomically(folder / SVG_FILE, badge_svg(sweep).encode())
    write_atomically(folder / JSON_FILE, badge_json(sweep).encode())
    return [folder / name for name in (REPORT_FILE, TABLE_FILE, PARQUET_FILE, PARETO_FILE, SWEEP_FILE)]


def _write_baseline(sweep: Sweep, old: Baseline | None, store: TrialStore, workdir: Path) -> list[Path]:
    """Write what this sweep would be as a baseline; no file where a trial failed or is left."""
    path = sweep_folder(workdir, sweep.summary.suite.name) / BASELINE_FILE
    path.unlink(missing_ok=True)
    if sweep.summary.left:
        return []
    try:
        new = updated_baseline(old, sweep.summary.suite, sweep.results, store, sweep.summary.origin)
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

    def at_work(self, trials: Sequence[AtWork]) -> None:
        """Nothing to count."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        if reused:
            self.reused.add(result.spec.key)


def best_settings(sweep: Sweep) -> list[str]:
    """The setting that is recommended for every model and march that has one, in words."""
    named = {result.spec.key: result.spec.id for result in sweep.results}
    return [named[choice.best] for choice in sweep.summary.choices if choice.best is not None]


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
