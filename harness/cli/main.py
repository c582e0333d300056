"""Command ``ptqlab``: sweeps, their results, and small tools around the engine.

Only what every command needs is imported here; each command imports the rest, so that ``--help`` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.lab import COMMANDS, GROUPS
from engine.errors import ConfigError, PtqlabError
from harness import workdir as workdirs
from harness.cli.bench import bench

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from harness.execution.coordinator import Plan
    from harness.gates.judgement import References
    from harness.report.results import Sweep, SweepSummary
    from harness.suites.expansion import Expansion
    from harness.suites.suite import Suite
    from harness.trials.tasks import Preparation, Prepared
    from harness.trials.trial import TrialResult, TrialSpec

EXIT_FAILED_TRIALS = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="ptqlab",
    help="An open accuracy lab for post-training quantization to BPU accelerators.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Workdir = Annotated[
    Path, typer.Option("--workdir", envvar=workdirs.VARIABLE, help="Folder of results, cache and MLflow store.")
]


Listing = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Headings and rows of a table."""


class Kind(StrEnum):
    """What ``ptqlab ls`` can list."""

    MODELS = "models"
    SUITES = "suites"
    DATASETS = "datasets"


class Retry(StrEnum):
    """Which trials that have a result run again."""

    NONE = "none"
    FAILED = "failed"


def main() -> None:
    """Entry point of the command ``ptqlab``."""
    try:
        app()
    except PtqlabError as error:
        typer.echo(f"ERROR: {error}", err=True)
        sys.exit(error.exit_code)


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="Name of a bundled suite, or a YAML file.")],
    workdir: Workdir = workdirs.DEFAULT,
    executor: Annotated[
        str,
        typer.Option(help="serial, processes, dask://host:port or package.module:factory (of a worker count)."),
    ] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, help="Trials at a time; default: one per CPU.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all trials again, from the start.")] = False,
    time_limit: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that a trial may take; default: the suite's, else an hour.")
    ] = None,
    retry: Annotated[Retry, typer.Option(help="Run trials again that failed.")] = Retry.NONE,
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow tracking URI; default: SQLite in the working directory.")
    ] = None,
    record: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Whether to record the sweep in MLflow.")] = True,
    baseline: Annotated[
        str | None,
        typer.Option(help="Baseline to compare with: a file, or @last-good; default: the bundled suite's own."),
    ] = None,
) -> None:
    """Sweep a suite: convert, simulate and score every trial; finished trials are not run again."""
    from engine.simulate.fast import available_cpus
    from harness.execution.coordinator import Plan, executor_factory
    from harness.gates.judgement import References
    from harness.suites.suite import open_suite
    from harness.sweep import expansion_of, find_baseline, resolve_baseline
    from harness.trials.tasks import Bench

    definition = open_suite(suite)
    _show_skipped(expansion_of(definition))
    workers = workers or available_cpus()
    plan = Plan(
        bench=Bench(workdir.resolve(), threads=max(1, available_cpus() // workers)),
        executor=executor_factory(executor),
        workers=workers,
        fresh=fresh,
        retry_failed=retry is Retry.FAILED,
        time_limit=time_limit,
    )
    accepted = find_baseline(suite)
    if baseline is not None:
        accepted = resolve_baseline(baseline, definition, workdir, tracking_uri)
    references = References(baseline=accepted)
    sweep = _run(definition, plan, references=references, record=record, tracking_uri=tracking_uri)
    _show_sweep(sweep, workdir)
    if sweep.failed:
        sys.exit(EXIT_FAILED_TRIALS)


@app.command()
def nightly(
    suite: Annotated[str, typer.Argument(help="Name of a bundled suite, or a YAML file.")] = "nightly",
    workdir: Workdir = workdirs.DEFAULT,
    executor: Annotated[str, typer.Option(help="As of ptqlab run.")] = "processes",
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow tracking URI; default: SQLite in the working directory.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="As of ptqlab run.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="As of ptqlab run.")] = False,
    retry: Annotated[Retry, typer.Option(help="As of ptqlab run.")] = Retry.NONE,
    recheck_nights: Annotated[
        int,
        typer.Option(min=0, help="Nights in which every reused trial is computed anew once, and compared; 0: never."),
    ] = 14,
    accept: Annotated[
        bool, typer.Option("--accept", help="Promote the sweep although it differs, unless a trial failed.")
    ] = False,
    anchor: Annotated[
        bool,
        typer.Option("--anchor", help="Make a promoted sweep the @anchor too, behind which no later one may fall."),
    ] = False,
) -> None:
    """Run, gate against @last-good and @anchor, report; promote to @last-good if all pass.

    Exit code: 0 all pass, 10 IMPROVEMENT, 11 MISSING, 12 REGRESSION, 13 ERROR, 14 MLflow was away, 15 a baseline is
    there and cannot be read.
    """
    from engine.simulate.fast import available_cpus
    from harness.execution.coordinator import Plan, executor_factory
    from harness.nightly import exit_code, night_references, promote_if_good
    from harness.suites.suite import open_suite
    from harness.trials.tasks import Bench

    definition = open_suite(suite)
    plan = Plan(
        bench=Bench(workdir.resolve()),
        executor=executor_factory(executor),
        workers=workers or available_cpus(),
        fresh=fresh,
        retry_failed=retry is Retry.FAILED,
    )
    references = night_references(suite, definition, workdir, tracking_uri)
    sweep = _run(definition, plan, references=references, record=True, tracking_uri=tracking_uri, night=recheck_nights)
    _show_sweep(sweep, workdir)
    _show_drift(sweep, workdir)
    if promote_if_good(sweep, accept=accept, anchor=anchor):
        aliases = "@last-good and @anchor" if anchor else "@last-good"
        typer.echo(f"promoted: this sweep is {aliases} of {definition.name} now")
    elif anchor:
        typer.echo(f"not promoted: @anchor of {definition.name} stays where it was", err=True)
    sys.exit(exit_code(sweep, accept=accept))


def _run(
    suite: Suite,
    plan: Plan,
    *,
    references: References,
    record: bool,
    tracking_uri: str | None,
    night: int | None = None,
) -> Sweep:
    """Run ``suite`` under a progress bar; ends the program where the user interrupts it."""
    from harness.sweep import run_suite

    with _progress() as progress:
        try:
            return run_suite(
                suite,
                plan,
                references=references,
                record=record,
                tracking_uri=tracking_uri,
                observers=[progress],
                night=night is not None,
                recheck_nights=night or 0,
            )
        except KeyboardInterrupt:
            typer.echo(f"interrupted; {progress.kept} finished trials are kept. The same command goes on from there.")
            sys.exit(EXIT_INTERRUPTED)


@app.command("ls")
def list_things(kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.SUITES) -> None:
    """List bundled suites, model cards or data sets."""
    from rich.table import Table

    headings, rows = _LISTINGS[kind]()
    table = Table(*headings, pad_edge=False, box=None, header_style="bold")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


@app.command()
def validate(
    suite: Annotated[str, typer.Argument(help="A YAML file, or the name of a bundled suite.")],
    verbose: Annotated[bool, typer.Option("--trials", help="List the trials.")] = False,
) -> None:
    """Check a suite and say what it holds, without running anything."""
    from harness.suites.suite import open_suite, suite_path
    from harness.sweep import expansion_of

    definition = open_suite(suite)
    found = expansion_of(definition, str(suite_path(suite)))
    points = found.points
    models = {point.model for point in points}
    typer.echo(
        f"{suite_path(suite)}: suite {definition.name} version {definition.version} is valid: {len(points)} trials, "
        f"{len(models)} models"
    )
    _show_skipped(found)
    if verbose:
        for point in points:
            typer.echo(point.id)


def _show_skipped(found: Expansion) -> None:
    """Say which combinations of a grid are no trials, and why."""
    for reason, count in found.skipped.items():
        typer.echo(f"skipped {count} {'combination' if count == 1 else 'combinations'}: {reason}", err=True)


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="A suite that was run, a trial id of one, or a trial key.")],
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Show the last sweep of a suite, or one trial with its nodes."""
    from harness.report.results import SWEEP_FILE, sweep_folder
    from harness.suites.suite import bundled_suites
    from harness.sweep import load_sweep

    if (sweep_folder(workdir, what) / SWEEP_FILE).is_file() or what in bundled_suites():
        _show_sweep(load_sweep(workdir, what), workdir)
    else:
        _show_trial(find_trial(workdir, what), workdir)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="Trial id or key.")],
    second: Annotated[str, typer.Argument(help="Trial id or key.")],
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Compare two trials figure by figure, and their predictions sample by sample."""
    from harness.report.tables import comparison_table
    from harness.trials.trial import TrialStore

    trials = [find_trial(workdir, name) for name in (first, second)]
    _console().print(comparison_table(trials[0], trials[1], TrialStore(workdir / "trials")))


@app.command()
def sync(
    workdir: Workdir = workdirs.DEFAULT,
    tracking_uri: Annotated[
        str | None, typer.Option(help="MLflow tracking URI; default: the one that each sweep was meant for.")
    ] = None,
) -> None:
    """Write the records of sweeps that MLflow was away for, and close those of sweeps that were killed.

    What MLflow has already is not written again.
    """
    from mlflow.exceptions import MlflowException

    from harness.tracking.sync import pending, replay
    from harness.tracking.unfinished import close_unfinished, forget

    folders = pending(workdir)
    for folder in folders:
        record = replay(folder, workdir, tracking_uri)
        forget(record.sweep, workdir)
        typer.echo(f"{record.suite.name}, sweep {record.sweep}: {len(record.trials)} trials written")
    try:
        closed = close_unfinished(workdir)
    except (MlflowException, OSError) as error:
        raise ConfigError(
            f"sweeps that were killed stay open in MLflow: {' '.join(str(error).split())[:400]}"
        ) from error
    for killed in closed:
        typer.echo(f"{killed.suite}, sweep {killed.sweep}: was killed, and is closed in MLflow")
    if not folders and not closed:
        typer.echo("nothing to sync")


def find_trial(workdir: Path, name: str) -> TrialResult:
    """The trial with this key, or with this id in the last sweep of any suite.

    Raises:
        ConfigError: there is none.
    """
    from harness.report.results import sweep_folder
    from harness.strict_yaml import unknown
    from harness.sweep import load_sweep
    from harness.trials.trial import TrialStore

    found = TrialStore(workdir / "trials").read(name) if Path(name).name == name else None
    if found is not None:
        return found
    suites = sorted(folder.name for folder in sweep_folder(workdir, "x").parent.glob("[!.]*"))
    results = {result.spec.id: result for suite in suites for result in load_sweep(workdir, suite).results}
    if name not in results:
        raise unknown(f"suite or trial in {workdir}", name, results)
    return results[name]


@contextmanager
def _progress() -> Iterator[ProgressBar]:
    """A progress bar on a terminal; a line per trial elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = _console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, expand=True) as progress:
        yield ProgressBar(progress, console)


class ProgressBar:
    """Shows how a sweep goes.

    Attributes:
        kept: trials that have a result so far.
    """

    def __init__(self, progress: Progress, console: Console) -> None:
        self.kept = 0
        self._total = 0
        self._progress, self._console = progress, console
        self._task: TaskID | None = None

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """The bar's length."""
        self._total = len(specs)
        self._task = self._progress.add_task("starting workers", total=len(specs))

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """What has been prepared."""
        spec = preparation.specs[0]
        seconds = sum(prepared.seconds.values())
        self._say(f"{spec.model} on {spec.march.value}: prepared in {seconds:.1f} s", advance=0)

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """One trial further."""
        self.kept += 1
        if result.accuracy is not None:
            outcome = f"{result.accuracy.metric} {result.accuracy.value:.4f}"
        else:
            outcome = f"failed in stage {result.failure.stage}" if result.failure else "failed"
        self._say(f"{result.spec.id}: {outcome}{' (reused)' if reused else ''}", advance=1)

    def _say(self, text: str, advance: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=advance, description=text[:60])
        if not self._console.is_terminal:
            self._console.print(f"[{self.kept}/{self._total}] {text}", markup=False, highlight=False)


def _show_sweep(sweep: Sweep, workdir: Path) -> None:
    """Verdict, tables, what does not pass, where everything is."""
    from harness.report.results import REPORT_FILE, sweep_folder
    from harness.report.tables import sweep_tables

    console = _console()
    for table in sweep_tables(sweep):
        console.print(table)
        console.print()
    for verdict in sweep.verdicts:
        if not verdict.verdict.is_good:
            console.print(f"{verdict.trial}: {verdict.message}", style="red", markup=False, highlight=False)
    summary = sweep.summary
    against = f"baseline {sweep.baseline.name}" if sweep.baseline else "no baseline"
    console.print(
        f"{sweep.verdict.value}: {len(sweep.results)} trials, {len(sweep.failed)} failed, "
        f"{summary.reused} reused{_rechecked(summary)}, "
        f"{summary.seconds:.1f} s, {against}; ★ = Pareto point",
        style="bold",
        markup=False,
        highlight=False,
    )
    report = (sweep_folder(workdir, summary.suite.name) / REPORT_FILE).resolve()
    console.print(f"report  {report.as_uri()}", soft_wrap=True, highlight=False)
    if sweep.record_problem:
        console.print(
            f"MLflow record incomplete: {sweep.record_problem}; later: ptqlab sync",
            style="yellow",
            soft_wrap=True,
            markup=False,
        )
    elif summary.tracking_uri:
        console.print(f"MLflow  mlflow ui --backend-store-uri {summary.tracking_uri}", soft_wrap=True, highlight=False)


def _rechecked(summary: SweepSummary) -> str:
    return f" ({summary.rechecked} computed anew)" if summary.rechecked else ""


def _show_drift(sweep: Sweep, workdir: Path) -> None:
    """What is worse than at the anchor, how sure that is, and since when."""
    from harness.gates.drift import drifts
    from harness.gates.nights import read_nights
    from harness.report.results import sweep_folder
    from harness.report.tables import drift_table

    nights = read_nights(sweep_folder(workdir, sweep.summary.suite.name))
    found = [drift for drift in drifts(nights) if drift.is_loss]
    if found:
        _console().print(drift_table(found, nights))


def _show_trial(result: TrialResult, workdir: Path) -> None:
    from harness.report.tables import node_table, trial_table
    from harness.trials.trial import NODES_FILE, TrialStore, read_nodes

    folder = TrialStore(workdir / "trials").folder(result.spec.key)
    console = _console()
    console.print(trial_table(result))
    nodes = read_nodes(folder / NODES_FILE)
    if nodes:
        console.print(node_table(nodes))
    console.print(f"files   {folder.resolve().as_uri()}", soft_wrap=True, highlight=False)


def _models() -> Listing:
    from harness.sweep import tags_of
    from harness.zoo.cards import list_cards

    rows = [
        (card.name, card.metric.name, f"{card.float_score.value:.4f}", ", ".join(tags_of(card)))
        for card in list_cards()
    ]
    return ("model", "metric", "float", "tags"), rows


def _suites() -> Listing:
    from harness.suites.suite import bundled_suites, open_suite
    from harness.sweep import expansion_of

    rows = []
    for name in bundled_suites():
        suite: Suite = open_suite(name)
        rows.append((name, str(suite.version), str(len(expansion_of(suite).points)), suite.description))
    return ("suite", "version", "trials", "description"), rows


def _datasets() -> Listing:
    from harness.datasets import list_dataset_cards

    return ("data set", "adapter", "licence"), [
        (card.name, card.adapter, card.licence) for card in list_dataset_cards()
    ]


_LISTINGS = {Kind.MODELS: _models, Kind.SUITES: _suites, Kind.DATASETS: _datasets}


def _console() -> Console:
    """A console for people; where there is no terminal, 100 columns unless ``COLUMNS`` says otherwise."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=100)


for _name, _command in {"bench": bench, **COMMANDS}.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)
