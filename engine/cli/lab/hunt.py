"""``ptqlab conformance hunt``: networks nobody chose, converted by the original and by ptqlab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from engine.cli.toolchain import ConversionLimit, MountOption
from engine.errors import ConfigError, hint

if TYPE_CHECKING:
    from engine.chips import March
    from engine.conformance.hunt.agreement import DrawOutcome
    from engine.conformance.hunt.groups import DepartureGroup
    from engine.conformance.hunt.hunting import Findings

EXIT_DEPARTED = 1
"""Exit code where some network departs."""


def hunt(
    to: Annotated[Path, typer.Option("-o", "--output", file_okay=False, help="Folder of the results; gone on with.")],
    toolchain: Annotated[
        str, typer.Option(help="Command that provides makertbin, such as hb_mapper or 'docker exec …'.")
    ],
    runtime: Annotated[
        str | None, typer.Option(help="Python interpreter with horizon_tc_ui; without it no outputs are compared.")
    ] = None,
    march: Annotated[str, typer.Option(help="One or several, joined by commas.")] = "bayes-e,bayes,bernoulli2",
    network: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Take windows out of this ONNX file instead.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="How long it takes.")] = None,
    draws: Annotated[int | None, typer.Option(min=1, help="How many networks are drawn in all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws: the same seed draws the same networks.")] = 0,
    shrinking: Annotated[
        int, typer.Option("--shrink", min=0, help="How often the toolchain is asked to make one network smaller.")
    ] = 40,
    workers: Annotated[int, typer.Option(min=1, help="Networks at a time.")] = 1,
    mount: MountOption = None,
    time_limit: ConversionLimit = 300.0,
    reference: Annotated[
        bool, typer.Option("--reference", help="Also run the original's files in the slow reference simulator.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the result, not the draws.")] = False,
) -> None:
    """Draw networks as people deploy them, convert each with both toolchains, and keep what departs, made small.

    The folder has a page (README.md), summary.json, a line per draw, and a recorded case per way of departing. The
    same command goes on with it. Exit code: 0 all agree, 1 some depart.
    """
    from datetime import UTC, datetime

    from engine.conformance.hunt.hunting import HuntPlan, Watcher, settings_for
    from engine.conformance.hunt.hunting import hunt as go_hunting
    from engine.conformance.hunt.report import PAGE, SUMMARY, hunt_page, summary_json
    from engine.conformance.hunt.windows import UserNetwork
    from engine.conformance.recording import CaseRecorder
    from engine.conformance.run import MeasurePlan
    from engine.ir import write_atomically
    from engine.simulate.session import Mode
    from engine.toolchain.command import Command
    from engine.toolchain.tool import Toolchain

    if minutes is None and draws is None:
        raise ConfigError("hunt: give --minutes, --draws or both, or it would never end")
    modes = (Mode.FAST, Mode.REFERENCE) if reference else (Mode.FAST,)
    plan = HuntPlan(
        to=to.resolve(),
        settings=settings_for(seed, read_marches(march), network),
        network=None if network is None else UserNetwork.read(network),
        draws=draws,
        minutes=minutes,
        shrinking=shrinking,
        measuring=MeasurePlan(workers, time_limit, modes),
    )

    def drawn(outcome: DrawOutcome) -> None:
        if not quiet:
            say(_line(outcome))

    def grouped(group: DepartureGroup) -> None:
        if not quiet:
            size = "made smaller" if group.shrunk else "new"
            say(f"    {group.name} ({size}, {len(group.operators)} nodes): {group.signature}")

    python = None if runtime is None else Command.parse(runtime, "--runtime", mount or ())
    tool = Toolchain(Command.parse(toolchain, "--toolchain", mount or ()), time_limit)

    def ask(config: Path, folder: Path) -> Path:
        return CaseRecorder(tool, python, folder, weights=True).record(config).folder

    found = go_hunting(plan, ask, Watcher(drawn, grouped, tool.stop.set))
    write_atomically(plan.to / PAGE, hunt_page(found, datetime.now(UTC).date()).encode())
    write_atomically(plan.to / SUMMARY, summary_json(found))
    show(found)
    say(plan.to / PAGE)
    if found.groups:
        raise typer.Exit(EXIT_DEPARTED)


def read_marches(text: str) -> tuple[March, ...]:
    """The marches that ``text`` names.

    Raises:
        ConfigError: one is not known, or the original does not convert for it.
    """
    from engine.chips import HB_MAPPER_MARCHES, March

    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [each.value for each in HB_MAPPER_MARCHES]
    for name in names:
        if name not in known:
            raise ConfigError(f"--march {text}: {name!r} is none of {', '.join(known)}{hint(name, known)}")
    if not names:
        raise ConfigError(f"--march: expected one or several of {', '.join(known)}")
    return tuple(March(name) for name in dict.fromkeys(names))


def show(found: Findings) -> None:
    """Print the figure by march, option and block, and a sentence per group."""
    from engine.cli.console import open_console, plain_table
    from engine.conformance.hunt.agreement import TABLES, by, headline, rows_of
    from engine.conformance.hunt.groups import counts
    from engine.conformance.hunt.report import sentence

    console, measure = open_console(), headline(rows_of(found.outcomes))
    for title, keys in TABLES.items():
        table = plain_table(title, figures=("draws", measure))
        for key, figure in by(found.outcomes, keys, measure).items():
            table.add_row(key, str(figure.total), str(figure))
        console.print(table)
    shown = counts(found.outcomes)
    for number, group in enumerate(found.groups, 1):
        say(f"{number}. {group.sentence(shown[group.signature], len(found.outcomes))}")
    say(sentence(found))


def _line(outcome: DrawOutcome) -> str:
    label = f"{outcome.index} {outcome.march} {' '.join(outcome.options)}: {' '.join(outcome.blocks)}"
    if outcome.failure:
        return f"{label} ({outcome.nodes} nodes): no answer: {outcome.failure}"
    departs = "; ".join(map(str, outcome.signatures))
    return f"{label} ({outcome.nodes} nodes): {departs or 'agrees'}"
