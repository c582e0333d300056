"""``ptqlab run``, ``nightly`` and ``sync``: sweeps and their record."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from engine.cli.lab.options import InputShapes
from engine.cli.named import FixedInputs
from engine.errors import ConfigError
from harness import workdir as workdirs
from harness.cli.checkpoints import Decoded, OwnData, UserPythonOption, is_own_network
from harness.cli.forecast import show_forecast, show_unfinished
from harness.cli.init import (
    LabelColumn,
    OwnDictionary,
    OwnLabels,
    OwnSize,
    SweptImages,
    TaskOption,
    Wishes,
    suite_of_network,
)
from harness.cli.options import ExplainBudget, Store, TrackerName, Workdir
from harness.cli.output import show_drift, show_lines, show_problems, show_skipped, show_sweep
from harness.cli.progress import progress_bar

if TYPE_CHECKING:
    from harness.execution.coordinator import Plan
    from harness.gates.judgement import References
    from harness.report.results import Sweep
    from harness.suites.suite import Suite
    from harness.trials.trial import TrialSpec

EXIT_FAILED_TRIALS = 1
EXIT_INTERRUPTED = 130

_ADDRESS_SPACE_MB = 1000
"""Megabytes of address space without which libraries that a sweep imports crash, or leave out what does not load.

Measured with ``python -m tests.faults.machines "little memory" --commands run,nightly`` on the smallest network: 1,000
are enough, with 600 and 800 Python itself was aborted or Pillow had no WebP.
"""

FailFast = Annotated[bool, typer.Option("--fail-fast", help="Start no further trials once one has failed.")]


class Retry(StrEnum):
    """Which trials that have a result run again."""

    NONE = "none"
    FAILED = "failed"


def run(
    suite: Annotated[
        str | None,
        typer.Argument(
            help="Name of a bundled suite, a YAML file, or a network with --images: an ONNX file, a checkpoint of "
            "ultralytics, TorchScript or torch.export.",
            show_default=False,
        ),
    ] = None,
    images: SweptImages = None,
    data: OwnData = None,
    labels: OwnLabels = None,
    task: TaskOption = None,
    size: OwnSize = None,
    dictionary: OwnDictionary = None,
    label_column: LabelColumn = None,
    fix: FixedInputs = None,
    input_shape: InputShapes = None,
    python: UserPythonOption = None,
    decoded: Decoded = False,
    workdir: Workdir = workdirs.DEFAULT,
    executor: Annotated[
        str,
        typer.Option(
            help="serial, processes, dask://host:port, or package.module:factory, called with the worker count."
        ),
    ] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Trials at a time; default: one per CPU.")] = None,
    store: Store = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all trials again, from the start.")] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds that a trial may take; default: the suite's limit, or one hour."),
    ] = None,
    retry: Annotated[Retry, typer.Option(help="Run failed trials again.")] = Retry.NONE,
    tracker: TrackerName = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(help="Store of the tracker; default: one in the working directory, of MLflow SQLite."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record/--no-record", "--mlflow/--no-mlflow", help="Whether to record the sweep.")
    ] = True,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Baseline to compare with: a file or @last-good; default: the baseline of the bundled suite."
        ),
    ] = None,
    explain_budget: ExplainBudget = 0.0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Compute at most this many trials; the next run continues.")
    ] = None,
    fail_fast: FailFast = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be computed and how long it would take; run nothing.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="List unfinished sweeps; run nothing.")] = False,
) -> None:
    """Sweep a suite: convert, simulate and score every trial; finished trials are not run again.

    Given a network and --images or --data, ptqlab first writes the cards and the suite that "ptqlab init"
    would write, into the working directory, and then sweeps that suite.
    """
    if resume:
        show_unfinished(workdir)
        return
    _refuse_little_memory()
    if suite is None:
        raise ConfigError("name a suite; ptqlab ls suites lists all suites, --resume the unfinished sweeps")
    wishes = Wishes(
        labels, task, size, dictionary, label_column, tuple(fix or ()), tuple(input_shape or ()), data, python, decoded
    )
    if is_own_network(suite):
        suite = str(suite_of_network(Path(suite), images, wishes, workdir))
    elif images is not None or not wishes.is_empty:
        raise ConfigError(
            f"{suite}: --images, --data, --labels, --label-column, --task, --size, --dictionary, --fix, --input-shape, "
            "--python and --decoded belong to a network"
        )
    from engine.simulate.fast import available_cpus
    from harness.announcing import tell_ci
    from harness.checking import refuse_mistakes
    from harness.exchange import checked_url
    from harness.execution.coordinator import Plan, executor_factory
    from harness.execution.planning import resolve
    from harness.gates.judgement import References
    from harness.paths import find_beside
    from harness.refusals import refusal_kept
    from harness.suites.suite import open_suite
    from harness.sweep import expansion_of, find_baseline, resolve_baseline, within
    from harness.trials.tasks import Bench

    find_beside(suite)
    definition = tracked(open_suite(suite), tracker)
    expansion = expansion_of(definition)
    show_skipped(expansion)
    with refusal_kept(definition.name, workdir):
        show_problems(refuse_mistakes(definition, expansion.points))
        specs = resolve(definition, expansion.points)
    workers = workers or available_cpus()
    plan = Plan(
        bench=Bench(workdir.resolve(), threads=max(1, available_cpus() // workers), store_url=checked_url(store)),
        executor=executor_factory(executor),
        workers=workers,
        fresh=fresh,
        retry_failed=retry is Retry.FAILED,
        time_limit=time_limit,
        fail_fast=fail_fast,
        most_trials=limit,
    )
    if dry_run:
        show_forecast(specs, within(definition.budget, plan))
        return
    accepted = find_baseline(suite)
    if baseline is not None:
        accepted = resolve_baseline(baseline, definition, workdir, tracking_uri)
    references = References(baseline=accepted)
    sweep = _run(
        definition,
        plan,
        references=references,
        specs=specs,
        record=record,
        tracking_uri=tracking_uri,
        explain=explain_budget,
        asked=suite,
    )
    show_sweep(sweep, workdir)
    show_lines(tell_ci(sweep, workdir))
    if sweep.failed:
        sys.exit(EXIT_FAILED_TRIALS)


def nightly(
    suite: Annotated[str, typer.Argument(help="Name of a bundled suite, or a YAML file.")] = "nightly",
    workdir: Workdir = workdirs.DEFAULT,
    executor: Annotated[str, typer.Option(help="As for ptqlab run.")] = "processes",
    tracker: TrackerName = None,
    tracking_uri: Annotated[
        str | None,
        typer.Option(help="Store of the tracker; default: one in the working directory, of MLflow SQLite."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="As for ptqlab run.")] = None,
    store: Store = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="As for ptqlab run.")] = False,
    retry: Annotated[Retry, typer.Option(help="As for ptqlab run.")] = Retry.NONE,
    recheck_nights: Annotated[
        int,
        typer.Option(
            min=0, help="Number of nights within which every reused trial is recomputed once and compared; 0: never."
        ),
    ] = 14,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Promote the sweep even if it differs from the baseline, unless a trial failed."),
    ] = False,
    anchor: Annotated[
        bool,
        typer.Option("--anchor", help="Also make a promoted sweep the @anchor, which no later sweep may fall below."),
    ] = False,
    explain_budget: ExplainBudget = 60.0,
    fail_fast: FailFast = False,
    webhook: Annotated[
        str | None,
        typer.Option(envvar="PTQLAB_WEBHOOK", help="URL to which the verdict is sent as JSON (POST)."),
    ] = None,
) -> None:
    """Run a suite, gate it against @last-good and @anchor, report, and promote it to @last-good if all trials pass.

    Exit code: 0 all pass, 10 IMPROVEMENT, 11 MISSING, 12 REGRESSION, 13 ERROR, 14 the record could not be written,
    15 a baseline exists but cannot be read.
    """
    from engine.simulate.fast import available_cpus
    from harness.announcing import check_webhook, message, tell_ci, tell_webhook
    from harness.checking import refuse_mistakes
    from harness.exchange import checked_url
    from harness.execution.coordinator import Plan, executor_factory
    from harness.execution.planning import resolve
    from harness.nightly import exit_code, night_references, promote_if_good
    from harness.paths import find_beside
    from harness.refusals import refusal_kept
    from harness.suites.suite import open_suite
    from harness.sweep import expansion_of
    from harness.trials.tasks import Bench

    _refuse_little_memory()
    webhook = check_webhook(webhook)
    find_beside(suite)
    definition = tracked(open_suite(suite), tracker)
    with refusal_kept(definition.name, workdir):
        points = expansion_of(definition).points
        show_problems(refuse_mistakes(definition, points))
        specs = resolve(definition, points)
    workdirs.refuse_unwritable(workdir)
    plan = Plan(
        bench=Bench(workdir.resolve(), store_url=checked_url(store)),
        executor=executor_factory(executor),
        workers=workers or available_cpus(),
        fresh=fresh,
        retry_failed=retry is Retry.FAILED,
        fail_fast=fail_fast,
    )
    references = night_references(suite, definition, workdir, tracking_uri)
    sweep = _run(
        definition,
        plan,
        references=references,
        specs=specs,
        record=True,
        tracking_uri=tracking_uri,
        night=recheck_nights,
        explain=explain_budget,
        asked=suite,
    )
    show_sweep(sweep, workdir)
    show_drift(sweep, workdir)
    if promote_if_good(sweep, workdir, accept=accept, anchor=anchor):
        aliases = "@last-good and @anchor" if anchor else "@last-good"
        say(f"promoted: this sweep is {aliases} of {definition.name} now")
    elif anchor:
        say(f"not promoted: @anchor of {definition.name} is unchanged", err=True)
    code = exit_code(sweep, accept=accept)
    show_lines(tell_ci(sweep, workdir))
    if webhook is not None and (problem := tell_webhook(webhook, message(sweep, workdir, code))):
        say(f"WARNING: the webhook could not be called: {problem}", err=True)
    sys.exit(code)


def tracked(suite: Suite, tracker: str | None) -> Suite:
    """``suite`` with the tracker that ``--tracker`` names, if it does.

    Raises:
        ConfigError: there is no such tracker, or a package lacks that it needs.
    """
    from harness.tracking.trackers import chosen_tracker

    return suite if tracker is None else suite.model_copy(update={"tracker": chosen_tracker(tracker)})


def _refuse_little_memory() -> None:
    """Refuse to sweep in less address space than Python and its libraries need.

    Raises:
        ConfigError: The process is limited to less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _ADDRESS_SPACE_MB * 2**20:
        allowed = f"{limit // 2**20:,} MB of address space"
        raise ConfigError(
            f"this process may use {allowed}; a sweep needs {_ADDRESS_SPACE_MB:,}: raise the limit (ulimit -v)"
        )


def _run(
    suite: Suite,
    plan: Plan,
    *,
    references: References,
    specs: Sequence[TrialSpec],
    record: bool,
    tracking_uri: str | None,
    night: int | None = None,
    explain: float = 0.0,
    asked: str = "",
) -> Sweep:
    """Run ``suite`` under a progress bar; ends the program where the user interrupts it."""
    from harness.estimates import Estimates
    from harness.sweep import run_suite

    known = Estimates.of_store(plan.bench.store)
    with progress_bar(known, plan.workers) as progress:
        try:
            return run_suite(
                suite,
                plan,
                references=references,
                specs=specs,
                record=record,
                tracking_uri=tracking_uri,
                observers=[progress],
                night=night is not None,
                recheck_nights=night or 0,
                explain_seconds=explain,
                asked=asked,
                tell=progress.tell,
            )
        except KeyboardInterrupt:
            say(f"interrupted; {progress.kept} finished trials are kept. The same command continues.")
            sys.exit(EXIT_INTERRUPTED)


def sync(
    workdir: Workdir = workdirs.DEFAULT,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Store of the tracker; default: the one that each sweep was started with.")
    ] = None,
) -> None:
    """Write the records of sweeps that ran while MLflow (or another tracker) could not be reached, and close those of
    killed sweeps.

    Records that are there already are not written again.
    """
    from harness.tracking.sync import pending, replay
    from harness.tracking.trackers import tracker_class
    from harness.tracking.unfinished import close_unfinished, forget

    folders = pending(workdir)
    for folder in folders:
        record = replay(folder, workdir, tracking_uri)
        forget(record.sweep, workdir)
        say(f"{record.suite.name}, sweep {record.sweep}: {len(record.trials)} trials written")
    closed = close_unfinished(workdir)
    for killed in closed:
        title = tracker_class(killed.tracker).title
        say(f"{killed.suite}, sweep {killed.sweep}: was killed; its run is now closed in {title}")
    if not folders and not closed:
        say("nothing to sync")
