"""What commands of ``ptqlab`` print: verdicts, tables, where files are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.console import open_console as wide_console
from engine.cli.console import say

if TYPE_CHECKING:
    from engine.cli.terminal import Terminal
    from harness.report.results import Sweep, SweepSummary
    from harness.suites.expansion import Expansion
    from harness.sweeps.checking import Problem
    from harness.trials.trial import TrialResult


def open_console() -> Terminal:
    """A console for tables that fill the page; without a terminal 100 columns unless ``COLUMNS`` says otherwise."""
    return wide_console(piped_width=100)


def print_json(content: Any) -> None:
    """``content`` as indented JSON; numbers that JSON does not have become null."""
    import json

    say(json.dumps(_finite(content), indent=2))


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def show_skipped(found: Expansion) -> None:
    """Say which combinations of a grid are no trials, and why."""
    for reason, count in found.skipped.items():
        say(f"skipped {count} {'combination' if count == 1 else 'combinations'}: {reason}", err=True)


def show_lines(lines: Iterable[str]) -> None:
    """Lines as they are: CI systems read annotations out of a log."""
    for line in lines:
        say(line)


def show_problems(found: Iterable[Problem]) -> None:
    """Say what this machine lacks for some trials, before the others run."""
    for problem in found:
        say(f"WARNING: {problem}", err=True)


def show_sweep(sweep: Sweep, workdir: Path) -> None:
    """Verdict, tables, what does not pass and why, where everything is.

    What changed since the baseline is left to ``ptqlab why`` and the page where everything passes.
    """
    from engine.rulebook.known import how_to_settle
    from harness.gates.explanation import in_words
    from harness.gates.verdicts import Verdict
    from harness.report.compatibility import compatibility_line, compatibility_pairs
    from harness.report.results import REPORT_FILE, sweep_folder
    from harness.report.tables import has_doubts, known_in_short, sweep_tables, warnings_of
    from harness.trials.trial import TrialStore

    console = open_console()
    for table in sweep_tables(sweep):
        console.print(table)
        console.print()
    for line in _bad_figures(sweep):
        _show_line(console, line, "red")
    for whom, text in warnings_of(sweep):
        _show_line(console, f"WARNING: {whom}: {text}", "yellow")
    for whom, text in known_in_short(sweep):
        _show_line(console, f"conversion of {whom} known: {text}")
    if has_doubts(sweep):
        _show_line(console, f"The page and ptqlab explain name the others; {how_to_settle()}")
    summary = sweep.summary
    for ship in summary.ships:
        _show_line(console, f"{ship.trial}: {ship}")
    explanation = None if sweep.verdict is Verdict.PASS else summary.explanation
    for line in in_words(explanation) if explanation else ():
        _show_line(console, line)
    pairs = compatibility_pairs(sweep, TrialStore(workdir / "trials"))
    line = compatibility_line(pairs, summary.suite.gates.significance)
    if line:
        _show_line(console, line)
    against = f"baseline {sweep.baseline.name}" if sweep.baseline else "no baseline"
    console.print(
        f"{sweep.verdict.value}: {len(sweep.results)} trials, {len(sweep.failed)} failed, "
        f"{summary.reused} reused{_rechecked(summary)}, "
        f"{summary.seconds:.1f} s, {against}",
        style="bold",
        markup=False,
        highlight=False,
    )
    report = (sweep_folder(workdir, summary.suite.name) / REPORT_FILE).resolve()
    console.print(f"report  {report.as_uri()}", soft_wrap=True, highlight=False)
    if sweep.earlier is not None:
        console.print(f"earlier {sweep.earlier.resolve().as_uri()}", soft_wrap=True, highlight=False)
    links = sweep.links(workdir)
    if links is not None and sweep.record_problem:
        console.print(
            f"{links.title} record incomplete: {sweep.record_problem}. When the store works again, run: ptqlab sync",
            style="yellow",
            soft_wrap=True,
            markup=False,
        )
    elif links is not None:
        console.print(f"{links.title:7} {links.how}", soft_wrap=True, highlight=False)


def _show_line(console: Terminal, line: str, style: str | None = None) -> None:
    """Print ``line``, on a terminal broken between words; whole where other programs may search it."""
    console.print(line, style=style, soft_wrap=not console.is_terminal, highlight=False)


def _bad_figures(sweep: Sweep) -> list[str]:
    """What does not pass, a line each; trials with the same figures are named together."""
    from harness.gates.explanation import several

    alike: dict[str, list[str]] = {}
    for verdict in sweep.verdicts:
        if not verdict.verdict.is_good:
            alike.setdefault(verdict.message, []).append(verdict.trial)
    lines = []
    for message, trials in alike.items():
        first, *others = message.splitlines() or [""]
        lines += [f"{several(trials)}: {first}", *(f"  {figure}" for figure in others)]
    return lines


def _rechecked(summary: SweepSummary) -> str:
    return f" ({summary.rechecked} recomputed)" if summary.rechecked else ""


def show_drift(sweep: Sweep, workdir: Path) -> None:
    """What is worse than at the anchor, how sure that is, and since when."""
    from harness.gates.drift import drifts
    from harness.gates.nights import read_nights
    from harness.report.results import sweep_folder
    from harness.report.tables import drift_table

    nights = read_nights(sweep_folder(workdir, sweep.summary.suite.name))
    found = [drift for drift in drifts(nights) if drift.is_loss]
    if found:
        open_console().print(drift_table(found, nights))


def show_trial(result: TrialResult, workdir: Path) -> None:
    from harness.report.tables import node_table, trial_table
    from harness.trials.trial import TrialStore

    store = TrialStore(workdir / "trials")
    console = wide_console()
    console.print(trial_table(result))
    nodes = store.nodes(result.spec.key)
    if nodes:
        console.print(node_table(nodes))
    console.print(f"files   {store.folder(result.spec.key).resolve().as_uri()}", soft_wrap=True, highlight=False)
