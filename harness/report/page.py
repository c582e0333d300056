"""One self-contained HTML page per sweep, without network: verdict first, Pareto plot, heat map, trial table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from harness import paths
from harness.gates.baseline import read_baseline
from harness.gates.drift import Drift, drifts
from harness.gates.nights import Night, read_nights
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep, pareto, sweep_folder
from harness.trials.fragments import as_yaml
from harness.trials.trial import NODES_FILE, TrialResult, TrialStore, read_nodes

TEMPLATE = "sweep.html.j2"

NO_CHANGE = 1e-9
"""Figures of a baseline are kept with nine digits: less is no difference."""

_PALETTE = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#a16207", "#be185d")
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
_LAYOUT: dict[str, Any] = {
    "template": "plotly_white",
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"},
    "margin": {"l": 70, "r": 20, "t": 50, "b": 60},
    "hoverlabel": {"align": "left"},
}


@dataclass(frozen=True)
class Axis:
    """A figure that plots can show.

    Attributes:
        name: as in :meth:`harness.trials.trial.TrialResult.metrics`.
        label: on a button.
        title: of the axis, with the unit.
        factor: from the metric's unit to the title's.
        form: format of values.
    """

    name: str
    label: str
    title: str
    factor: float = 1.0
    form: str = ".4f"

    def of(self, result: TrialResult) -> float | None:
        """The figure of a trial in the title's unit; None where it has none."""
        value = result.metrics().get(self.name)
        return None if value is None else value * self.factor


LATENCY = Axis("latency.ms", "latency", "estimated BPU latency, ms", form=".3f")
QUALITIES = (
    Axis("accuracy.quantized", "accuracy", "accuracy of the quantised model"),
    Axis("accuracy.ratio", "% of float", "accuracy, % of the float model's", 100, ".2f"),
    Axis("cosine.output", "cosine", "mean cosine of outputs to the float model's", form=".5f"),
    Axis("agreement", "agreement", "share of decisions equal to the float model's"),
)
HEATS = (
    Axis("accuracy.delta", "Δ accuracy", "accuracy minus float, points", 100, "+.2f"),
    Axis("cosine.output", "cosine", "mean cosine of outputs to the float model's", form=".5f"),
    Axis("sqnr", "SQNR", "SQNR, dB", form=".1f"),
    LATENCY,
)


def render(sweep: Sweep, workdir: Path) -> str:
    """The page of ``sweep``; its links lead to the trials' folders under ``workdir``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.reports() / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    best = pareto(sweep.results)
    links = {result.spec.key: _link(sweep, result, workdir) for result in sweep.results}
    profiles = _profiles(sweep.results, workdir)
    nights = [
        night
        for night in read_nights(sweep_folder(workdir, sweep.summary.suite.name))
        if night.version == sweep.summary.suite.version
    ]
    drifting = drifts(nights)
    return environment.get_template(TEMPLATE).render(
        sweep=sweep,
        summary=sweep.summary,
        counts=_counts(sweep),
        rows=[_row(sweep, result, best, links) for result in sweep.results],
        fragments=[(result, as_yaml(result)) for result in sweep.results if result.spec.key in best],
        changes=_changes(sweep),
        profiled=[(index, profile["trial"]) for index, profile in enumerate(profiles)],
        profiles=_script_json(json.dumps(profiles)),
        notes=[verdict for verdict in sweep.verdicts if not verdict.verdict.is_good],
        plotly=get_plotlyjs(),
        drifting=[drift for drift in drifting if drift.is_loss],
        nights=nights,
        drift=_json(drift_figure(drifting, nights)) if any(night.anchor for night in nights) else "",
        scatter=_json(pareto_figure(sweep.results, best, links)),
        heat=_json(heat_figure(sweep.results)),
    )


def drift_figure(found: Sequence[Drift], nights: Sequence[Night]) -> go.Figure:
    """Watched figures since the anchor over the nights, one line per trial; a diamond where a loss began."""
    figure = go.Figure()
    names = list(dict.fromkeys(drift.figure for drift in found))
    when = [night.started_at for night in nights]
    for drift in found:
        if drift.anchor is None:
            continue
        first = drift.figure == names[0]
        figure.add_trace(
            go.Scatter(
                x=when,
                y=[None if np.isnan(value) else float(value - drift.anchor) for value in drift.values],
                name=drift.trial,
                meta=drift.figure,
                mode="lines+markers",
                marker={
                    "size": [11 if index == drift.began else 4 for index in range(len(when))],
                    "symbol": ["diamond" if index == drift.began else "circle" for index in range(len(when))],
                },
                visible=first,
                hovertemplate="%{y:+.5g}<br>%{x}<extra>%{fullData.name}</extra>",
            )
        )
    shown = [drift for drift in found if drift.anchor is not None]
    buttons = [
        {
            "label": name,
            "method": "update",
            "args": [
                {"visible": [drift.figure == name for drift in shown]},
                {"yaxis.title.text": f"{name} since anchor"},
            ],
        }
        for name in names
    ]
    figure.update_layout(
        **_LAYOUT,
        height=420,
        updatemenus=[
            {"type": "buttons", "direction": "right", "x": 0, "y": 1.14, "xanchor": "left", "buttons": buttons}
        ],
        yaxis={"title": {"text": f"{names[0]} since anchor" if names else ""}},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure


def pareto_figure(results: Sequence[TrialResult], best: set[str], links: Mapping[str, str]) -> go.Figure:
    """Quality against latency; a colour per model, a symbol per march, lines through the Pareto points.

    Args:
        results: of the sweep.
        best: keys of the Pareto points.
        links: to the trials' folders by key; a click on a point follows them.
    """
    usable = [result for result in results if LATENCY.of(result) is not None]
    models = list(dict.fromkeys(result.spec.model for result in usable))
    marches = list(dict.fromkeys(result.spec.march for result in usable))
    figure = go.Figure()
    drawn: list[list[TrialResult]] = []
    for model in models:
        for march in marches:
            group = [r for r in usable if r.spec.model == model and r.spec.march is march]
            if not group:
                continue
            style = {
                "color": _PALETTE[models.index(model) % len(_PALETTE)],
                "symbol": _SYMBOLS[marches.index(march) % len(_SYMBOLS)],
            }
            name = model if len(marches) == 1 else f"{model}, {march}"
            front = sorted((r for r in group if r.spec.key in best), key=_latency)
            figure.add_trace(_front(front, name, style["color"]))
            figure.add_trace(_points(group, best, links, name, style))
            drawn += [front, group]
    figure.update_layout(
        **_LAYOUT,
        height=520,
        legend={"orientation": "h", "y": -0.16},
        xaxis={"title": LATENCY.title, "rangemode": "tozero"},
        yaxis={"title": QUALITIES[0].title},
        updatemenus=[_buttons(QUALITIES, lambda axis: _show_quality(axis, drawn))],
    )
    return figure


def heat_figure(results: Sequence[TrialResult]) -> go.Figure:
    """Settings by model and march, coloured within each column, since networks differ more than settings do."""
    rows = list(dict.fromkeys(result.spec.settings.label for result in results))
    columns = list(dict.fromkeys((result.spec.model, result.spec.march) for result in results))
    found = {(r.spec.settings.label, r.spec.model, r.spec.march): r for r in results}
    cells = [[found.get((row, *column)) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=[f"{model}<br>{march.value}" for model, march in columns],
            y=rows,
            colorscale=[[0, "#fecaca"], [0.5, "#fef9c3"], [1, "#bbf7d0"]],
            showscale=False,
            xgap=3,
            ygap=3,
            hovertemplate="%{y}<br>%{x}<br>%{text}<extra></extra>",
            **_show_heat(HEATS[0], cells),
        )
    )
    figure.update_traces(texttemplate="%{text}")
    figure.update_layout(
        **_LAYOUT,
        height=150 + 30 * len(rows),
        plot_bgcolor="#f3f4f6",
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        xaxis={"side": "bottom", "showgrid": False},
        updatemenus=[
            _buttons(HEATS, lambda axis: [{name: [value] for name, value in _show_heat(axis, cells).items()}])
        ],
    )
    return figure


def _points(
    group: Sequence[TrialResult], best: set[str], links: Mapping[str, str], name: str, style: dict[str, str]
) -> go.Scatter:
    return go.Scatter(
        x=[LATENCY.of(result) for result in group],
        y=[QUALITIES[0].of(result) for result in group],
        name=name,
        mode="markers",
        legendgroup=name,
        marker={
            **style,
            "size": [13 if result.spec.key in best else 9 for result in group],
            "opacity": [1.0 if result.spec.key in best else 0.55 for result in group],
            "line": {"width": 1, "color": "white"},
        },
        text=[_hover(result) for result in group],
        customdata=[links[result.spec.key] for result in group],
        hovertemplate="%{text}<extra></extra>",
    )


def _front(front: Sequence[TrialResult], name: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[LATENCY.of(result) for result in front],
        y=[QUALITIES[0].of(result) for result in front],
        mode="lines",
        line={"color": colour, "width": 1.5, "dash": "dot"},
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
    )


def _hover(result: TrialResult) -> str:
    """All figures of a trial, for the box beside the pointer."""
    lines = [f"<b>{result.spec.model}</b>, {result.spec.march.value}", result.spec.settings.label]
    lines += [f"{name} {value:.5g}" for name, value in result.metrics().items()]
    return "<br>".join(lines)


def _show_quality(axis: Axis, drawn: Sequence[Sequence[TrialResult]]) -> list[dict[str, Any]]:
    """Arguments of the button that plots ``axis``: new values, then the title that goes with them."""
    return [{"y": [[axis.of(result) for result in trace] for trace in drawn]}, {"yaxis.title.text": axis.title}]


def _show_heat(axis: Axis, cells: Sequence[Sequence[TrialResult | None]]) -> dict[str, Any]:
    """``z`` (0 worst, 1 best of its column) and ``text`` of the heat map of ``axis``."""
    values = [[axis.of(cell) if cell is not None else None for cell in row] for row in cells]
    columns = [_normalised(column, axis is LATENCY) for column in zip(*values, strict=True)]
    return {
        "z": [list(row) for row in zip(*columns, strict=True)],
        "zmin": 0,
        "zmax": 1,
        "text": [["" if value is None else format(value, axis.form) for value in row] for row in values],
    }


def _normalised(column: Sequence[float | None], less_is_better: bool) -> list[float | None]:
    known = [value for value in column if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high == low:
        return [None if value is None else 1.0 for value in column]
    shares = [None if value is None else (value - low) / (high - low) for value in column]
    return [None if share is None else 1 - share if less_is_better else share for share in shares]


def _buttons(axes: Sequence[Axis], arguments: Any) -> dict[str, Any]:
    """A row of buttons above a plot, one per figure."""
    return {
        "type": "buttons",
        "direction": "right",
        "x": 0,
        "xanchor": "left",
        "y": 1.02,
        "yanchor": "bottom",
        "pad": {"b": 6},
        "bgcolor": "white",
        "bordercolor": "#d1d5db",
        "font": {"size": 12},
        "buttons": [{"label": axis.label, "method": "update", "args": arguments(axis)} for axis in axes],
    }


def _latency(result: TrialResult) -> float:
    return LATENCY.of(result) or 0.0


def _json(figure: go.Figure) -> str:
    return _script_json(str(figure.to_json()))


def _script_json(text: str) -> str:
    """JSON that may stand in a script element: no text of it can end the element."""
    return text.replace("<", "\\u003c")


def _profiles(results: Sequence[TrialResult], workdir: Path) -> list[dict[str, Any]]:
    """Per trial: its nodes in the order of the graph, with types and cosines."""
    store, found = TrialStore(workdir / "trials"), []
    for result in results:
        nodes = [row for row in read_nodes(store.folder(result.spec.key) / NODES_FILE) if row.cosine is not None]
        if nodes:
            found.append(
                {
                    "trial": result.spec.id,
                    "nodes": [row.node for row in nodes],
                    "cosines": [row.cosine for row in nodes],
                    "types": [f"{row.type}, {row.on}, {row.data_type}" for row in nodes],
                }
            )
    return found


def _changes(sweep: Sweep) -> list[dict[str, Any]]:
    """Figures that differ from the baseline, within tolerance or not, the greatest share of tolerance first."""
    if sweep.baseline is None:
        return []
    accepted = read_baseline(sweep.baseline).trials
    found = []
    for result in sweep.results:
        for name, value in result.metrics().items():
            reference = accepted[result.spec.id].figures.get(name) if result.spec.id in accepted else None
            if reference is not None and abs(value - reference.value) > NO_CHANGE:
                found.append(
                    {
                        "trial": result.spec.id,
                        "figure": name,
                        "before": reference.value,
                        "now": value,
                        "change": value - reference.value,
                        "tolerance": reference.allowed(sweep.summary.suite.gates),
                    }
                )
    return sorted(found, key=lambda row: -abs(row["change"]) / (row["tolerance"] or NO_CHANGE))


def _counts(sweep: Sweep) -> dict[str, int]:
    """Trials by verdict, the worst first."""
    found = [verdict.verdict for verdict in sweep.verdicts]
    return {verdict.value: found.count(verdict) for verdict in reversed(Verdict) if verdict in found}


def _link(sweep: Sweep, result: TrialResult, workdir: Path) -> str:
    folder = TrialStore(workdir / "trials").folder(result.spec.key)
    return os.path.relpath(folder, sweep_folder(workdir, sweep.summary.suite.name))


def _row(sweep: Sweep, result: TrialResult, best: set[str], links: Mapping[str, str]) -> dict[str, Any]:
    """What the trial table shows of a trial."""
    return {
        "result": result,
        "spec": result.spec,
        "metrics": result.metrics(),
        "best": result.spec.key in best,
        "verdict": sweep.verdict_of(result.spec.id).value,
        "seconds": sum(result.seconds.values()),
        "link": links[result.spec.key],
    }
