"""``ptqlab conformance``: recorded conversions of the original toolchain beside ours."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from engine.cli.lab.hunt import hunt
from engine.cli.toolchain import ConversionLimit, MountOption
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    from engine.cli.terminal import Terminal
    from engine.conformance.cases import RecordedCase
    from engine.conformance.measures import Row
    from engine.conformance.recording import Recording
    from engine.errors import PtqlabError
    from engine.toolchain.tool import Toolchain

EXIT_BELOW_BAR = 1
EXIT_REFUSED = 1
"""The toolchain refused a configuration, or was cut off."""

app = typer.Typer(
    name="conformance", help="Compare conversions with those of the original toolchain.", no_args_is_help=True
)


class NetworkShare(StrEnum):
    """Which networks are measured."""

    ALL = "all"
    SEEN = "seen"
    HELD_OUT = "held-out"


app.command()(hunt)


@app.callback()
def conformance() -> None:
    """Compare conversions with those of the original toolchain."""


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="Recorded cases, at any depth below this folder.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", dir_okay=False, help="Write all rows and tables as JSON.")
    ] = None,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a self-contained HTML page.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", dir_okay=False, help="Write the tables as Markdown.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Names of cases or networks, such as swin_* or vit_sep; repeatable.")
    ] = None,
    holdout: Annotated[
        str | None, typer.Option(help="every:N holds out each N-th network by name: scored, but never shown.")
    ] = None,
    part: Annotated[NetworkShare, typer.Option(help="Which networks are measured, with --holdout.")] = NetworkShare.ALL,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of cases at a time; default: one per processor.")
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds that a case may take.")] = 600.0,
    bar: Annotated[
        list[str] | None,
        typer.Option(help="MEASURE=VALUE or MEASURE=SEEN,HELD: exit 1 if a figure is worse; repeatable."),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Also run the original's files in the slow reference simulator.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the tables, not the cases.")] = False,
) -> None:
    """Convert recorded cases and print what agrees, with the first stage and node of each that differ."""
    from engine.conformance.cases import find_cases
    from engine.conformance.run import MeasurePlan, held_out, measure_all
    from engine.simulate.fast import available_cpus
    from engine.simulate.session import Mode

    bars = read_bars(bar or ())
    found = find_cases(folder)
    away = held_out(found, read_holdout(holdout))
    chosen = [case for case in found if _is_chosen(case, only) and _is_in(part, case.family in away)]
    if not chosen:
        raise ConfigError(f"{folder}: no case fits --only {' '.join(only or ())} and --part {part}")
    console = _console()

    def show(row: Row) -> None:
        if not quiet and row.family not in away:
            _show_row(console, row)

    modes = (Mode.FAST, Mode.REFERENCE) if reference else (Mode.FAST,)
    measured = measure_all(chosen, MeasurePlan(workers or available_cpus(), time_limit, modes), show)
    rows = [row.model_copy(update={"held_out": row.family in away}) for row in measured]
    _show_tables(console, rows)
    _write_files(folder.name, rows, json_file, markdown_file, html)
    missed = below(rows, bars)
    for text in missed:
        say(text, err=True)
    if missed:
        raise typer.Exit(EXIT_BELOW_BAR)


@app.command()
def record(
    configs: Annotated[list[Path], typer.Argument(help="YAML files of conversions.", metavar="CONFIG.yaml...")],
    toolchain: Annotated[
        str, typer.Option(help="Command that provides makertbin, such as hb_mapper or 'docker exec …'.")
    ],
    to: Annotated[Path, typer.Option("-o", "--output", file_okay=False, help="Folder of the recorded cases.")],
    runtime: Annotated[
        str | None,
        typer.Option(help="Python interpreter with horizon_tc_ui, such as python3; records the model's outputs too."),
    ] = None,
    no_weights: Annotated[
        bool, typer.Option("--no-weights", help="Keep structure, thresholds and tables, but no weights and no data.")
    ] = False,
    mount: MountOption = None,
    time_limit: ConversionLimit = 3600.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of conversions at a time.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Leave cases that are there already, except those that were cut off.")
    ] = False,
) -> None:
    """Convert with your own installation of the original toolchain and record the results for "check".

    A conversion that the toolchain refuses is an answer and is recorded too. Exit code: 0 all converted,
    1 the toolchain refused some or was cut off, 255 some could not be recorded.
    """
    from concurrent.futures import ThreadPoolExecutor

    from engine.cli.toolchain import activities
    from engine.conformance.recording import CaseRecorder, case_name
    from engine.errors import PtqlabError
    from engine.toolchain.command import Command
    from engine.toolchain.tool import Toolchain

    recorder = CaseRecorder(
        tool=Toolchain(Command.parse(toolchain, "--toolchain", mount or ()), time_limit),
        runtime=None if runtime is None else Command.parse(runtime, "--runtime", mount or ()),
        to=to.resolve(),
        weights=not no_weights,
        resume=resume,
    )
    names = [case_name(config) for config in configs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{', '.join(twice)}: several configurations would be recorded under this name; rename them")

    def one(config: Path) -> Recording | PtqlabError:
        try:
            return recorder.record(config, lambda text: shown.tell(case_name(config), text))
        except PtqlabError as error:
            return error
        finally:
            shown.done(case_name(config))

    code = 0
    with activities(lines=False) as shown, ThreadPoolExecutor(workers) as pool:
        for config, found in zip(configs, _all(pool, one, configs, recorder.tool), strict=True):
            if isinstance(found, PtqlabError):
                code = PtqlabError.exit_code
                say(f"ERROR: {config}: {str(found).removeprefix(f'{config}: ')}", err=True)
                continue
            say(f"{found.folder}{' (recorded before)' if found.known else ''}")
            if found.failure:
                code = code or EXIT_REFUSED
                say(f"{config}: not converted: {found.failure}", err=True)
    if code:
        raise typer.Exit(code)


def _all(
    pool: ThreadPoolExecutor,
    one: Callable[[Path], Recording | PtqlabError],
    configs: list[Path],
    tool: Toolchain,
) -> Iterator[Recording | PtqlabError]:
    """What ``one`` gives for each of ``configs``; an interruption ends conversions that run."""
    try:
        yield from pool.map(one, configs)
    except KeyboardInterrupt:
        tool.stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


@app.command()
def questions(
    to: Annotated[Path, typer.Option("-o", "--output", file_okay=False, help="Folder to write; it must not exist.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Names of questions, such as channel_* or lines; repeatable.")
    ] = None,
) -> None:
    """Write small networks that ask the original what no recorded conversion tells, for "record"."""
    from engine.conformance.questions import QUESTIONS, write_questions

    chosen = [each for each in QUESTIONS if not only or any(fnmatchcase(each.name, name) for name in only)]
    if not chosen:
        names = ", ".join(each.name for each in QUESTIONS)
        raise ConfigError(f"--only {' '.join(only or ())}: no question has such a name; there are {names}")
    written = write_questions(chosen, to)
    for each in chosen:
        say(f"{each.name}: {each.asks}")
    say(f"{len(written)} configurations in {to}; record them with your installation:")
    say(f"    ptqlab conformance record --toolchain hb_mapper --runtime python3 {to}/*/*.yaml -o cases")


@app.command()
def coverage(
    folder: Annotated[Path, typer.Argument(help="Recorded conversions, in folders of any depth.")],
    to: Annotated[Path | None, typer.Option("-o", "--output", dir_okay=False, help="Write the YAML file.")] = None,
) -> None:
    """List the operators and ranks that recorded conversions cover, by march; others are marked as unmeasured."""
    from engine.conformance.coverage import as_yaml, measured
    from engine.ir import write_atomically

    text = as_yaml(measured(folder))
    if to is None:
        say(text, nl=False)
    else:
        say(write_atomically(to, text.encode()))


def _write_files(title: str, rows: list[Row], json_file: Path | None, tables: Path | None, html: Path | None) -> None:
    import json

    from engine.conformance.page import markdown, page
    from engine.ir import write_atomically

    if json_file is not None:
        write_atomically(json_file, json.dumps(as_dict(rows), indent=1).encode())
    if tables is not None:
        write_atomically(tables, markdown(rows).encode())
    if html is not None:
        write_atomically(html, page(title, rows).encode())


def read_holdout(text: str | None) -> int | None:
    """The N of ``every:N``.

    Raises:
        ConfigError: it has another form.
    """
    if text is None:
        return None
    kind, _, number = text.partition(":")
    if kind != "every" or not number.isdecimal() or int(number) < 1:
        raise ConfigError(f"--holdout {text}: expected every:N with N of at least 1")
    return int(number)


def read_bars(texts: list[str] | tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    """One bar for all columns or one per column, by measure.

    Raises:
        ConfigError: a text has another form or names no measure.
    """
    from engine.conformance.table import MEASURES

    bars = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        if name not in MEASURES:
            raise ConfigError(f"--bar {text}: no measure {name!r}; there are {', '.join(MEASURES)}")
        try:
            bars[name] = tuple(float(number) for number in numbers.split(","))
        except ValueError as error:
            raise ConfigError(f"--bar {text}: expected MEASURE=VALUE or MEASURE=SEEN,HELD") from error
    return bars


def below(rows: list[Row], bars: dict[str, tuple[float, ...]]) -> list[str]:
    """The measures that are worse than their bars, in words."""
    from engine.conformance.table import MEASURES, parts

    found = []
    for name, numbers in bars.items():
        for index, column in enumerate(parts(rows)):
            bar, value = numbers[min(index, len(numbers) - 1)], column.values[name]
            if value is None or not MEASURES[name].reaches(value, bar):
                shown = "not measured" if value is None else f"{value:.4f}"
                found.append(f"{name} ({column.name}): {shown}, the bar is {bar:g}")
    return found


def as_dict(rows: list[Row]) -> dict[str, object]:
    """``{table, by_march, by_family: [{name, cases, values}], cases: [row]}``; held-out rows without their causes."""
    from dataclasses import asdict

    from engine.conformance.table import groups, of_family, of_march, parts

    hidden = {"departure", "message", "output_message", "simulator_message"}
    return {
        "table": [asdict(group) for group in parts(rows)],
        "by_march": [asdict(group) for group in groups(rows, of_march)],
        "by_family": [asdict(group) for group in groups(rows, of_family)],
        "cases": [
            {
                **row.model_dump(mode="json", exclude=hidden if row.held_out else None),
                "latency_error": row.latency_error,
            }
            for row in rows
        ],
    }


def _is_chosen(case: RecordedCase, patterns: list[str] | None) -> bool:
    names = (case.name, case.family)
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _is_in(part: NetworkShare, is_held_out: bool) -> bool:
    return part is NetworkShare.ALL or is_held_out is (part is NetworkShare.HELD_OUT)


def _show_row(console: Terminal, row: Row) -> None:
    from engine.conformance.conversion import Ending
    from engine.conformance.page import mark, share

    marks = ("converts", "outputs", "operators", "subgraphs", "simulator")
    shares = ("thresholds", "devices", "integers")
    found = [f"{name} {mark(getattr(row, name))}" for name in marks]
    found += [f"{name} {share(getattr(row, name))}" for name in shares if getattr(row, name) is not None]
    if row.latency_error is not None:
        found.append(f"latency {row.latency_us:.0f} us, ours {row.predicted_us:.0f}")
    lines = [f"{row.case} ({row.march}): {' '.join(found)} [{row.seconds:.1f} s]"]
    if row.outcome is Ending.UNREAD:
        lines = [f"{row.case}: {row.message}"]
    if row.departure is not None:
        lines.append(f"    {row.departure}")
    if row.output_message:
        lines.append(f"    outputs: {row.output_message}")
    if row.simulator is False:
        lines.append(f"    simulator: {row.simulator_message or f'outputs differ by {row.simulator_error:.3g}'}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def _show_tables(console: Terminal, rows: list[Row]) -> None:
    from rich.table import Table

    from engine.conformance.page import percent
    from engine.conformance.table import MEASURES, SHORT, departures, groups, of_family, of_march, parts

    columns = parts(rows)
    table = Table("measure", "", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(f"{column.name} ({column.cases})", justify="right")
    for name, measure in MEASURES.items():
        table.add_row(name, measure.title, *(percent(column.values[name]) for column in columns))
    console.print(table)
    stages = ", ".join(f"{stage} {count}" for stage, count in departures(rows).items())
    console.print(f"First departures of the networks that are not held out: {stages or 'none'}", highlight=False)
    headings = [name.replace("latency", "us").replace("_", " ") for name in SHORT]
    for title, key in (("march", of_march), ("network", of_family)):
        table = Table(title, "cases", box=None, header_style="bold", pad_edge=False)
        for heading in headings:
            table.add_column(heading, justify="right")
        for found in groups(rows, key):
            table.add_row(found.name, str(found.cases), *(percent(found.values[name], 0) for name in SHORT))
        console.print(table)


def _console() -> Terminal:
    from engine.cli.console import open_console

    return open_console()
