"""Tables of sweeps for the terminal, readable at 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from engine.board import cpu_statement
from engine.cli.console import plain_table
from engine.rulebook.known import Known, in_short
from engine.terms import CalibrationType
from harness.gates.choice import Choice
from harness.gates.drift import Drift
from harness.gates.explanation import several
from harness.gates.nights import Night
from harness.gates.paired import MetricEvidence, p_ahead
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep
from harness.suites.settings import Int16Kind
from harness.trials.figures import Accuracy, TrialNode
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.NO_GATE: "dim",
    Verdict.IMPROVEMENT: "cyan",
    Verdict.MISSING: "yellow",
    Verdict.REGRESSION: "red",
    Verdict.ERROR: "bold red",
}


_MARKS = {
    "★": "★ Pareto point: nothing as fast is as accurate, beyond noise.",
    "≈": "≈ within noise of the best.",
    "=": "= same integers, and so same figures, as an earlier setting.",
}
_FIGURES = "± half a 95 % interval of Δ. BPU ms: estimates."


def sweep_tables(sweep: Sweep) -> list[Table]:
    """One table per model and march."""
    groups = groupby(sweep.results, key=lambda result: (result.spec.model, result.spec.march))
    tables = [_table(sweep, list(results)) for _, results in groups]
    if tables:
        used = "".join(sweep.marks(result.spec.key) for result in sweep.results)
        legend = " ".join([*(text for mark, text in _MARKS.items() if mark in used), _FIGURES, cpu_times(sweep)])
        tables[-1].caption = Text(f"{tables[-1].caption}\n{legend}")
    return tables


def _table(sweep: Sweep, results: Sequence[TrialResult]) -> Table:
    spec = results[0].spec
    chosen = [choice for choice in sweep.summary.choices if (choice.model, choice.march) == (spec.model, spec.march)]
    table = Table(
        title=Text(_title(results)),
        title_justify="left",
        title_style="bold",
        caption=Text("\n".join(choice_text(choice, results) for choice in chosen)),
        caption_justify="left",
        caption_style="",
        expand=True,
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    table.add_column("setting", ratio=1, min_width=14, overflow="fold")
    for name in ("accuracy", "Δ pt", "±", "agree", "cosine", "BPU ms", "CPU ms"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for result in results:
        verdict = sweep.verdict_of(result.spec.id)
        table.add_row(
            sweep.marks(result.spec.key),
            Text(result.spec.settings.label),
            *_figures(result),
            Text(verdict.value, _COLOURS[verdict]),
        )
    return table


def cpu_times(sweep: Sweep) -> str:
    """What the CPU times of a sweep rest on, in a sentence; empty where nothing runs on the CPU."""
    footprints = [result.footprint for result in sweep.results if result.footprint is not None]
    boards = dict.fromkeys(spec.board.origin for spec in sweep.summary.trials if spec.board is not None)
    cpu, measured = sum(each.cpu_ms for each in footprints), sum(each.cpu_measured_ms for each in footprints)
    return cpu_statement(1e3 * cpu, 1e3 * measured, ", ".join(boards))


def warnings_of(sweep: Sweep) -> list[tuple[str, str]]:
    """Whom a warning concerns, and its text.

    Trials with the same doubt or with the same broken outputs are named together, all of a model by its name. Of broken
    outputs the text is that of the trial with the lowest cosine.
    """
    doubtful: dict[str, list[TrialResult]] = {}
    broken: dict[tuple[str, tuple[str, ...]], list[TrialResult]] = {}
    for result in sweep.results:
        for text in result.doubts:
            doubtful.setdefault(f"calibration data: {text}", []).append(result)
        if result.broken.outputs:
            broken.setdefault((result.spec.model, result.broken.outputs), []).append(result)
    found = [(_whom(sweep, results), text) for text, results in doubtful.items()]
    for results in broken.values():
        worst = min(results, key=lambda result: result.fidelity.cosine if result.fidelity else 0.0)
        among = f" (Of {len(results)} trials this is the worst: {worst.spec.settings.label}.)" if results[1:] else ""
        found.append((_whom(sweep, results), f"{worst.broken.text}{among}"))
    return found


def known_conversions(sweep: Sweep) -> list[tuple[str, str]]:
    """Whom a statement of how far the conversion is known concerns, and the statement, with all that is doubted."""
    found: dict[str, list[TrialResult]] = {}
    for result in sweep.results:
        if result.known is not None:
            found.setdefault(str(result.known), []).append(result)
    return [(_whom(sweep, results), text) for text, results in found.items()]


def known_in_short(sweep: Sweep) -> list[tuple[str, str]]:
    """Models, and how far their conversions are known, a line for those that share it."""
    by_model: dict[str, list[Known]] = {}
    for result in sweep.results:
        if result.known is not None:
            by_model.setdefault(result.spec.model, []).append(result.known)
    found: dict[str, list[str]] = {}
    for model, conversions in by_model.items():
        found.setdefault(in_short(conversions), []).append(model)
    return [(several(models), text) for text, models in found.items()]


def has_doubts(sweep: Sweep) -> bool:
    """Whether of any node it is not known that the original converts it so."""
    return any(result.known is not None and result.known.doubts for result in sweep.results)


def _whom(sweep: Sweep, results: Sequence[TrialResult]) -> str:
    """The models whose trials ``results`` are, where these are all; else the trials."""
    models = {result.spec.model for result in results}
    if len(results) == sum(other.ok and other.spec.model in models for other in sweep.results):
        return several(sorted(models))
    return several([result.spec.id for result in results])


def choice_text(choice: Choice, results: Sequence[TrialResult]) -> str:
    """What the images hold, what a sweep recommends, what that is worth on images that did not choose it, what is as
    good, and what would tell them apart, in words.
    """
    by_key = {result.spec.key: result for result in results}
    shown = by_key[choice.best or choice.nearest]
    accuracy = shown.accuracy
    words = [] if accuracy is None else [accuracy.found(choice.samples)]
    if choice.best is None:
        words.append(f"No setting passes the gates. Nearest: {shown.spec.settings.label} ({choice.lacks}).")
        return " ".join(filter(None, words))
    words.append(f"Best: {shown.spec.settings.label}{_worth(choice)}.")
    if len(choice.alike) > 1:
        alike = f"These {len(choice.alike)} of {choice.compared} settings cannot be told apart (≈)"
        words.append(f"{alike}: {decided}." if (decided := _decided(choice, accuracy)) else f"{alike}.")
    if choice.hopeless:
        words.append(_hopeless(choice, by_key))
    if choice.failing:
        words.append(f"Not considered: {choice.failing} that {'fails' if choice.failing == 1 else 'fail'} a gate.")
    return " ".join(filter(None, words))


def _hopeless(choice: Choice, by_key: Mapping[str, TrialResult]) -> str:
    """Which settings are far below the others, and why where the sweep tells it."""
    found = [by_key[key] for key in choice.hopeless]
    best = by_key[choice.best or ""]
    points = [100 * abs(_value_of(result) - _value_of(best)) for result in found]
    least, most = min(points), max(points)
    by = f"{least:.0f}" if round(least) == round(most) else f"{least:.0f} to {most:.0f}"
    named = f"Hopeless: {several([result.spec.settings.label for result in found])}, {by} points worse."
    if not all(result.spec.settings.calibration_type is CalibrationType.KL for result in found):
        return named
    alike = [result for key, result in by_key.items() if _is_beside(result, best) and key not in choice.hopeless]
    if any(result.spec.settings.calibration_type is CalibrationType.KL for result in alike):
        return named
    boxes = "; in a detector these place the boxes" if best.accuracy and best.accuracy.metric == "map50" else ""
    wide = any(result.spec.settings.int16.kind is not Int16Kind.NONE for result in found)
    rounding = " Rounding is not the cause: int16 does not help." if wide else ""
    return f"{named} Thresholds of kl cut off rare large values{boxes}.{rounding} Use max."


def _value_of(result: TrialResult) -> float:
    return 0.0 if result.accuracy is None else result.accuracy.value


def _is_beside(result: TrialResult, other: TrialResult) -> bool:
    """Whether both are trials of one model on one march that have figures."""
    return result.ok and (result.spec.model, result.spec.march) == (other.spec.model, other.spec.march)


def _worth(choice: Choice) -> str:
    """What choosing on one half is worth on the other."""
    found = choice.cross_fit
    if found is None:
        return ""
    own, others = (100 * (change + 0.0) for change in (found.chosen, found.reported))
    return (
        f", chosen by {100 * found.share:.0f} % of random halves; what they choose has Δ {own:+.2f} pt on their own "
        f"images and {others:+.2f} pt on the others"
    )


def _decided(choice: Choice, accuracy: Accuracy | None) -> str:
    """How many images would tell how small a difference, or that these do already."""
    found = choice.resolution
    if found is None or accuracy is None:
        return ""
    points = 100 * found.difference
    words = f"{points:g} {'point' if points == 1 else 'points'}"
    present = choice.samples if accuracy.informative is None else accuracy.informative
    if found.images <= present:  # there is no finer step to speak of
        return f"a difference of {words} would show on these images"
    return f"about {found.images} {accuracy.images} tell {words} apart"


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
        f"{100 * result.accuracy.margin:.2f}",
        "" if fidelity.agreement is None else f"{fidelity.agreement:.4f}",
        f"{fidelity.cosine:.5f}",
        f"{footprint.latency_ms:.3f}" if footprint else "",
        footprint.cpu_text if footprint else "",
    )


def trial_table(result: TrialResult) -> Table:
    """Everything that is known of one trial, a line each."""
    spec = result.spec
    table = Table(
        title=Text(spec.id), title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False
    )
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
        *(("warning", text) for text in result.warnings),
    ]
    if result.failure is not None:
        rows.append((f"failed in {result.failure.stage}", f"{result.failure.symptom}: {result.failure.text}"))
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def node_table(nodes: Sequence[TrialNode]) -> Table:
    """The node table of a trial."""
    table = plain_table("node", "on", "sub", "type", "data", figures=("cosine", "threshold"))
    for row in nodes:
        table.add_row(
            Text(row.node),
            row.on,
            "" if row.subgraph is None else str(row.subgraph),
            Text(row.type),
            row.data_type,
            "" if row.cosine is None else f"{row.cosine:.6f}",
            "" if row.threshold is None else f"{row.threshold:.5g}",
        )
    return table


def comparison_table(
    first: TrialResult, second: TrialResult, store: TrialStore, engines: tuple[str, str] | None = None
) -> Table:
    """Two trials figure by figure; where both scored the same samples, also how many differ, and if by chance.

    Args:
        first, second: the trials.
        store: has their predictions.
        engines: what computed each, in words; None for their digests.
    """
    table = Table(pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for result in (first, second):
        table.add_column(Text(result.spec.id), overflow="fold", justify="right")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_row("engine", *(engines or (first.spec.engine, second.spec.engine)), "")
    figures = first.metrics(), second.metrics()
    for name in dict.fromkeys((*figures[0], *figures[1])):
        values = [found.get(name) for found in figures]
        shown = ["" if value is None else f"{value:.6g}" for value in values]
        a, b = values
        table.add_row(Text(name), *shown, "" if a is None or b is None else f"{b - a:+.6g}")
    before, now = (MetricEvidence.of(result, store.predictions(result.spec.key)) for result in (first, second))
    if _pairable(first.spec, second.spec) and before is not None and now is not None and now.pairs_with(before):
        better, worse = now.changed_from(before)
        ahead, behind = (now, before) if now.value >= before.value else (before, now)
        p = float(p_ahead(ahead, [behind])[0])
        table.add_row("samples better / worse", "", f"{better} / {worse}", f"p = {p:.3g}")
    return table


def _pairable(first: TrialSpec, second: TrialSpec) -> bool:
    return (first.data, first.evaluation_samples) == (second.data, second.evaluation_samples)


def sizes_table(kinds: Mapping[str, tuple[int, int]]) -> Table:
    """Number and bytes of files by kind."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("kind", overflow="fold")
    table.add_column("files", justify="right", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    for kind, (count, size) in sorted(kinds.items()):
        table.add_row(Text(kind), str(count), f"{size / 1e6:.1f}")
    return table


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
            Text(drift.trial),
            Text(drift.figure),
            f"{drift.anchor:.6g}",
            f"{drift.values[-1]:.6g}",
            "" if drift.p is None else f"{drift.p:.2g}",
            began,
        )
    return table
