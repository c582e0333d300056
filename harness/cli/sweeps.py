"""``ptqlab run`` and ``nightly``: sweeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import say
from engine.cli.lab.options import InputShapes
from engine.cli.named import FixedInputs
from engine.errors import ConfigError
from harness.cli.checkpoints import Decoded, OwnData, UserPythonOption, is_own_network
from harness.cli.forecast import show_forecast, show_unfinished
from harness.cli.init import (
    LabelColumn,
    OwnDictionary,
    OwnLabels,
    OwnSize,
    OwnSuite,
    SweptImages,
    TaskOption,
    Wishes,
    suite_of_network,
)
from harness.cli.options import ExplainBudget, Store, TrackerName, Workdir
from harness.cli.output import show_drift, show_lines, show_skipped, show_sweep
from harness.cli.sweeping import Retry, Wanted, checked_trials, handed_over, refuse_little_memory, swept
from harness.files import workdir as workdirs

EXIT_FAILED_TRIALS = 1

FailFast = Annotated[bool, typer.Option("--fail-fast", help="Start no further trials once one has failed.")]


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
    refuse_little_memory()
    if suite is None:
        raise ConfigError("name a suite; ptqlab ls suites lists all suites, --resume the unfinished sweeps")
    wishes = Wishes(
        labels, task, size, dictionary, label_column, tuple(fix or ()), tuple(input_shape or ()), data, python, decoded
    )
    wanted = Wanted(
        workdir=workdir,
        executor=executor,
        workers=workers,
        store=store,
        fresh=fresh,
        retry=retry,
        fail_fast=fail_fast,
        tracker=tracker,
        tracking_uri=tracking_uri,
        explain_budget=explain_budget,
        time_limit=time_limit,
        limit=limit,
        record=record,
    )
    if is_own_network(suite):
        _run_network(Path(suite), images, wishes, wanted, baseline, dry_run=dry_run)
        return
    if images is not None or not wishes.is_empty:
        raise ConfigError(
            f"{suite}: --images, --data, --labels, --label-column, --task, --size, --dictionary, --fix, --input-shape, "
            "--python and --decoded belong to a network"
        )
    _run_suite(suite, wanted, baseline, dry_run=dry_run)


def _run_network(
    network: Path, images: Path | None, wishes: Wishes, wanted: Wanted, baseline: str | None, *, dry_run: bool
) -> None:
    """Write the cards and the suite of a network of the user's own, once, and sweep that suite."""
    own = suite_of_network(network, images, wishes, wanted.workdir)
    _run_suite(str(own.path), wanted, baseline, own, dry_run=dry_run)


def _run_suite(name: str, wanted: Wanted, baseline: str | None, own: OwnSuite | None = None, *, dry_run: bool) -> None:
    """Sweep the suite ``name`` against its baseline, and show what came out; a failed trial is an exit code.

    ``own``: the suite, if it was made for a network of the user's own just now.
    """
    from harness.gates.judgement import References
    from harness.sweeps.announcing import tell_ci
    from harness.sweeps.baselines import find_baseline, resolve_baseline
    from harness.sweeps.planning import expansion_of, within

    suite = wanted.suite(name)
    expansion = expansion_of(suite)
    show_skipped(expansion)
    specs = checked_trials(suite, wanted.workdir, expansion)
    plan = wanted.plan(share_threads=True)
    if dry_run:
        show_forecast(specs, within(suite.budget, plan))
        return
    accepted = find_baseline(name)
    if baseline is not None:
        accepted = resolve_baseline(baseline, suite, wanted.workdir, wanted.tracking_uri)
    float_seconds = None if own is None or plan.fresh else handed_over(own, specs, plan)
    sweep = swept(suite, plan, specs, References(baseline=accepted), wanted, asked=name, float_seconds=float_seconds)
    show_sweep(sweep, wanted.workdir)
    show_lines(tell_ci(sweep, wanted.workdir))
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
    from harness.sweeps.announcing import check_webhook, message, tell_ci, tell_webhook
    from harness.sweeps.nightly import exit_code, night_references, promote_if_good

    refuse_little_memory()
    webhook = check_webhook(webhook)
    wanted = Wanted(
        workdir=workdir,
        executor=executor,
        workers=workers,
        store=store,
        fresh=fresh,
        retry=retry,
        fail_fast=fail_fast,
        tracker=tracker,
        tracking_uri=tracking_uri,
        explain_budget=explain_budget,
    )
    definition = wanted.suite(suite)
    specs = checked_trials(definition, workdir)
    workdirs.refuse_unwritable(workdir)
    plan = wanted.plan(share_threads=False)
    references = night_references(suite, definition, workdir, tracking_uri)
    sweep = swept(definition, plan, specs, references, wanted, asked=suite, night=recheck_nights)
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
