"""``ptqlab bench``: speed, memory and conversion time as tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from harness.bench.measure import BenchReport
    from harness.zoo.cards import ModelCard


SUITE = "zoo"
"""Name that stands for all structures."""


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Models of the zoo; default: all that are installed. zoo: structures at real size, seeded weights.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", exists=True, dir_okay=False, help="A quantised model instead.")
    ] = None,
    float_model: Annotated[
        Path | None, typer.Option("--float-model", exists=True, dir_okay=False, help="Its float network, with --model.")
    ] = None,
    march: Annotated[str, typer.Option(help="BPU architecture that models of the zoo are converted for.")] = "bayes-e",
    batches: Annotated[str, typer.Option("--batch", help="Batch sizes, joined by commas.")] = "1,8",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every contender; the median counts.")] = 5,
    reference: Annotated[
        bool, typer.Option("--reference/--no-reference", help="Whether to time the numpy reference as well.")
    ] = True,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Also list time, bytes and calls per operator of the simulator.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the simulator against float32 ONNX Runtime and the numpy reference, taking turns in one run."""
    import json

    from engine.simulate.bench import BenchOptions
    from harness.bench.measure import Pair, as_json, bench_card, bench_pair, bench_structure
    from harness.bench.structures import STRUCTURES

    options = BenchOptions(_batches(batches), threads, rounds, reference=reference)
    if model is not None:
        if names:
            raise typer.BadParameter("takes no names of models beside it", param_hint="--model")
        reports = [bench_pair(Pair(model.stem, model, float_model), options)]
    elif float_model is not None:
        raise typer.BadParameter("goes with --model only", param_hint="--float-model")
    else:
        known = [name for name in names or () if name != SUITE and name not in STRUCTURES]
        structures = [name for name in STRUCTURES if name in (names or ()) or SUITE in (names or ())]
        reports = [bench_card(card, march, options) for card in (_cards(known) if known or not structures else ())]
        reports += [bench_structure(name, march, options) for name in structures]
    if json_output:
        typer.echo(json.dumps(as_json(reports), indent=2))
    else:
        _show(reports, profiled)


def _batches(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--batch {text}: give positive integers joined by commas, as 1,8")
    return tuple(int(part) for part in parts)


def _cards(names: Sequence[str]) -> list[ModelCard]:
    """The named cards; without names those whose model file is there, said where one is not."""
    from engine.errors import MissingError, ModelError
    from harness.zoo.cards import list_cards, load_card

    if names:
        return [load_card(name) for name in names]
    found = []
    for card in list_cards():
        try:
            card.model_path()
        except (ModelError, MissingError) as error:
            typer.echo(f"left out: {error}", err=True)
        else:
            found.append(card)
    return found


def _show(reports: Sequence[BenchReport], profiled: bool) -> None:
    from engine.cli.console import open_console

    console = open_console()
    profiles = [_profile(report) for report in reports] if profiled else []
    for table in (_speed(reports), _slower(reports), _memory(reports), _conversion(reports), *profiles):
        if table.row_count:
            console.print(table)
            console.print()


def _slower(reports: Sequence[BenchReport]) -> Table:
    """Networks that are slower than float, with what takes most of their time."""
    from rich.table import Table

    table = Table("model", "batch", "ratio", "slowest operators", title="slower than float", box=None)
    for report in reports:
        for row in report.simulator:
            if report.profile is not None and row.ratio_to_float is not None and row.ratio_to_float < 1:
                slowest = [f"{c.op_type} ({c.instruction}) {c.seconds * 1e3:.2f} ms" for c in report.profile.costs[:3]]
                table.add_row(report.model, str(row.batch), f"{row.ratio_to_float:.2f}", ", ".join(slowest))
    return table


def _profile(report: BenchReport) -> Table:
    from rich.table import Table

    profile = report.profile
    outside = (
        "" if profile is None else f", {profile.seconds * 1e3:.2f} ms, {profile.outside_kernels:.1%} outside kernels"
    )
    table = Table("operator", "instruction", title=f"{report.model}{outside}", title_justify="left", box=None)
    for heading in ("calls", "ms", "MB", "GB/s"):
        table.add_column(heading, justify="right")
    for cost in profile.costs if profile is not None else ():
        rate = cost.bytes / cost.seconds / 1e9
        row = (str(cost.calls), f"{cost.seconds * 1e3:.3f}", f"{cost.bytes / 1e6:.2f}", f"{rate:.2f}")
        table.add_row(cost.op_type, cost.instruction, *row)
    return table


def _speed(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    from harness.bench.measure import geometric_mean

    table = Table("model", title="simulator, images per second", title_justify="left", box=None, header_style="bold")
    for heading in ("batch", "threads", "simulator", "float ORT", "ratio", "numpy", "ratio"):
        table.add_column(heading, justify="right")
    for report in reports:
        for row in report.simulator:
            table.add_row(
                report.model,
                str(row.batch),
                str(row.threads),
                _number(row.images_per_s, ".1f"),
                _number(row.float_images_per_s, ".1f"),
                _number(row.ratio_to_float, ".2f"),
                _number(row.reference_images_per_s, ".2f"),
                _number(row.ratio_to_reference, ".0f"),
            )
    for batch in dict.fromkeys(row.batch for report in reports for row in report.simulator):
        if len(reports) > 1:
            table.add_row("geometric mean", str(batch), "", "", "", _number(geometric_mean(reports, batch), ".2f"))
    return table


def _memory(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    table = Table("model", title="peak memory, MB", title_justify="left", box=None, header_style="bold")
    for heading in ("batch", "simulator", "float ORT", "ratio"):
        table.add_column(heading, justify="right")
    for report in reports:
        for row in report.memory:
            figures = row.as_dict()
            table.add_row(
                report.model,
                str(row.batch),
                _number(row.simulator_bytes / 1e6, ".0f"),
                _number(None if row.float_bytes is None else row.float_bytes / 1e6, ".0f"),
                _number(figures["ratio_to_float"], ".2f"),
            )
    return table


def _conversion(reports: Sequence[BenchReport]) -> Table:
    from rich.table import Table

    table = Table("model", title="conversion, seconds", title_justify="left", box=None, header_style="bold")
    measured = [report for report in reports if report.conversion]
    stages = list(dict.fromkeys(stage for r in measured if r.conversion for stage in r.conversion.seconds))
    for heading in ("images", *stages, "float pass"):
        table.add_column(heading, justify="right")
    for report in measured:
        if report.conversion is None:
            continue
        given = report.conversion
        seconds = [_number(given.seconds.get(stage), ".2f") for stage in stages]
        table.add_row(report.model, str(given.images), *seconds, _number(given.float_pass_seconds, ".2f"))
    return table


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
