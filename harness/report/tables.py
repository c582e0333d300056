"""Tables of sweeps for the terminal, readable at 100 columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from harness.gates.drift import Drift
from harness.gates.nights import Night
from harness.gates.paired import paired_p_value
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep, pareto
from harness.trials.figures import NodeRow
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.NO_GATE: "dim",
    Verdict.IMPROVEMENT: "cyan",
    Verdict.MISSING: "yellow",
    Verdict.REGRESSION: "red",
    Verdict.ERROR: "bold red",
}


def sweep_tables(sweep: Sweep) -> list[Table]:
    """One table per model and march."""
    best = pareto(sweep.results)
    groups = groupby(sweep.results, key=lambda result: (result.spec.model, result.spec.march))
    return [_table(sweep, list(results), best) for _, results in groups]


def _table(sweep: Sweep, results: Sequence[TrialResult], best: set[str]) -> Table:
    table = Table(
        title=_title(results),
        title_justify="left",
        title_style="bold",
        expand=True,
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("method", ratio=3, min_width=12, overflow="fold")
    table.add_column("per ch.", no_wrap=True)
    table.add_column("int16", ratio=1, min_width=6, overflow="fold")
    for name in ("accuracy", "Δ pt", "agree", "cosine", "SQNR", "ms", "CPU"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for result in results:
        verdict = sweep.verdict_of(result.spec.id)
        settings = result.spec.settings
        table.add_row(
            ("★ " if result.spec.key in best else "  ") + settings.variant,
            "yes" if settings.per_channel else "",
            settings.int16.label.removeprefix("int16."),
            *_figures(result),
            Text(verdict.value, _COLOURS[verdict]),
        )
    return table


def _title(results: Sequence[TrialResult]) -> str:
    spec = results[0].spec
    title = f"{spec.model} on {spec.march.value}"
    measured = next((result.accuracy for result in results if result.accuracy is not None), None)
    if measured is not None:
        title += f": float {measured.metric} {measured.float_value:.4f} on {spec.evaluation_samples} samples"
    return title


def _figures(result: TrialResult) -> tuple[str, ...]:
    if result.accuracy is None or result.fidelity is None:
        return ("failed", *6 * ("",))
    fidelity, footprint = result.fidelity, result.footprint
    return (
        f"{result.accuracy.value:.4f}",
        f"{100 * result.accuracy.delta:+.2f}",
        "" if fidelity.agreement is None else f"{fidelity.agreement:.4f}",
        f"{fidelity.cosine:.5f}",
        "" if fidelity.sqnr_db is None else f"{fidelity.sqnr_db:.1f}",
        f"{footprint.latency_ms:.3f}" if footprint else "",
        str(footprint.cpu_nodes) if footprint else "",
    )


def trial_table(result: TrialResult) -> Table:
    """Everything that is known of one trial, a line each."""
    spec = result.spec
    table = Table(title=spec.id, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("value", overflow="fold")
    rows = [
        ("key", spec.key),
        ("samples", f"{spec.calibration_samples} to calibrate, {spec.evaluation_samples} to evaluate"),
        ("engine", spec.engine),
        ("finished", result.finished_at),
        *((name, f"{value:.6g}") for name, value in result.metrics().items()),
        *((f"seconds.{stage}", f"{seconds:.3f}") for stage, seconds in result.seconds.items()),
        *((f"unmet: {unmet.node}", f"{unmet.request}: {unmet.reason}") for unmet in result.unmet),
    ]
    if result.failure is not None:
        rows.append((f"failed in {result.failure.stage}", f"{result.failure.symptom}: {result.failure.message}"))
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def node_table(nodes: Sequence[NodeRow]) -> Table:
    """The node table of a trial."""
    table = Table("node", "on", "sub", "type", "cosine", "threshold", "type", pad_edge=False)
    for row in nodes:
        table.add_row(
            Text(row.node, overflow="fold"),
            row.on,
            "" if row.subgraph is None else str(row.subgraph),
            row.type,
            "" if row.cosine is None else f"{row.cosine:.6f}",
            "" if row.threshold is None else f"{row.threshold:.5g}",
            row.data_type,
        )
    return table


def comparison_table(first: TrialResult, second: TrialResult, store: TrialStore) -> Table:
    """Two trials figure by figure; where both scored the same samples, also how many differ, and if by chance."""
    table = Table(pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for result in (first, second):
        table.add_column(result.spec.id, overflow="fold", justify="right")
    table.add_column("difference", justify="right", no_wrap=True)
    figures = first.metrics(), second.metrics()
    for name in dict.fromkeys((*figures[0], *figures[1])):
        values = [found.get(name) for found in figures]
        shown = ["" if value is None else f"{value:.6g}" for value in values]
        a, b = values
        table.add_row(name, *shown, "" if a is None or b is None else f"{b - a:+.6g}")
    scores = [store.predictions(result.spec.key).get("per_sample") for result in (first, second)]
    if _pairable(first.spec, second.spec) and scores[0] is not None and scores[1] is not None:
        differences = scores[1] - scores[0]
        better, worse = int((differences > 0).sum()), int((differences < 0).sum())
        p = paired_p_value(differences if better >= worse else -differences)
        table.add_row("samples better / worse", "", f"{better} / {worse}", f"p = {p:.3g}")
    return table


def _pairable(first: TrialSpec, second: TrialSpec) -> bool:
    return (first.data, first.evaluation_samples) == (second.data, second.evaluation_samples)


def drift_table(found: Sequence[Drift], nights: Sequence[Night]) -> Table:
    """Figures that are worse than at the anchor, with their significance and the night in which that began."""
    table = Table(title="Worse than @anchor", title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("trial", overflow="fold")
    table.add_column("figure", no_wrap=True)
    for name in ("anchor", "now", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("began", no_wrap=True)
    of_version = [night for night in nights if night.version == nights[-1].version]
    for drift in found:
        began = "" if drift.began is None else of_version[drift.began].started_at[:16].replace("T", " ")
        table.add_row(
            drift.trial,
            drift.figure,
            f"{drift.anchor:.6g}",
            f"{drift.values[-1]:.6g}",
            "" if drift.p is None else f"{drift.p:.2g}",
            began,
        )
    return table
