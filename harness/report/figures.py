"""The plots of a sweep's page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from engine.pages.colours import PALETTE, SEQUENTIAL, SYMBOLS, WORSE_BETTER
from harness.gates.drift import Drift
from harness.gates.nights import Night
from harness.report.axes import LATENCY, Axis, buttons
from harness.report.effects import EFFECTS, in_order, short_levels, varied
from harness.report.names import ShortNames
from harness.trials.trial import TrialResult

_LAYOUT: dict[str, Any] = {"margin": {"l": 60, "r": 16, "t": 16, "b": 60}}

MOST_ERROR_BARS = 200
"""Points of a model up to which each has an error bar; of more the Pareto points alone."""


QUALITIES = (
    Axis("accuracy.quantized", "accuracy", "accuracy of the quantised model"),
    Axis("accuracy.ratio", "% of float", "accuracy, % of the float model's", 100, ".2f"),
    Axis("cosine.output", "cosine", "mean cosine of outputs to the float model's", form=".5f"),
    Axis("agreement", "agreement", "the metric with the float model's decisions as labels"),
)
HEATS = (
    Axis("accuracy.delta", "Δ accuracy", "accuracy minus float, points", 100, "+z.2f"),
    Axis("cosine.output", "cosine", "mean cosine of outputs to the float model's", form=".5f"),
    Axis("sqnr", "SQNR", "SQNR, dB", form=".1f"),
    LATENCY,
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
                name=escape(drift.trial),
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
        updatemenus=[{"type": "buttons", "buttons": buttons}],
        yaxis={"title": {"text": f"{names[0]} since anchor" if names else ""}},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure


def pareto_figure(results: Sequence[TrialResult], best: Collection[str], links: Mapping[str, str]) -> go.Figure:
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
    drawn: list[_Part] = []
    for model in models:
        for march in marches:
            group = [r for r in usable if r.spec.model == model and r.spec.march is march]
            if not group:
                continue
            style = {
                "color": PALETTE[models.index(model) % len(PALETTE)],
                "symbol": SYMBOLS[marches.index(march) % len(SYMBOLS)],
            }
            name = escape(model) if len(marches) == 1 else f"{escape(model)}, {march}"
            front = sorted((r for r in group if r.spec.key in best), key=_latency)
            figure.add_trace(_front(front, name, style["color"]))
            drawn.append(_Part(front))
            for part in _parts(group, best):
                figure.add_trace(_points(part, best, links, name, style))
                drawn.append(part)
    figure.update_layout(
        **_LAYOUT,
        height=520,
        legend={"orientation": "h", "y": -0.16},
        xaxis={"title": _latency_title(usable)},
        yaxis={
            "title": {"text": QUALITIES[0].title, "standoff": 8},
            "automargin": False,
        },  # else drawn twice per change
        updatemenus=[buttons(QUALITIES, lambda axis: _show_quality(axis, drawn))],
    )
    return figure


def _latency_title(results: Sequence[TrialResult]) -> str:
    """Title of the axis of latencies, which says whether their CPU part was measured on a board."""
    parts = [each.footprint for each in results if each.footprint is not None and each.footprint.cpu_ms]
    if not parts:
        return LATENCY.title
    if all(part.cpu_measured_ms >= part.cpu_ms for part in parts):
        return f"{LATENCY.title} (CPU measured)"
    some = "partly measured" if any(part.cpu_measured_ms for part in parts) else "from nothing measured"
    return f"{LATENCY.title} (CPU {some})"


def heat_figure(results: Sequence[TrialResult], names: ShortNames) -> go.Figure:
    """Settings by model and march, coloured within each column, since networks differ more than settings do."""
    rows = list(dict.fromkeys(result.spec.settings.label for result in results))
    shown = {result.spec.settings.label: names.settings(result.spec.settings) for result in results}
    columns = list(dict.fromkeys((result.spec.model, result.spec.march) for result in results))
    found = {(r.spec.settings.label, r.spec.model, r.spec.march): r for r in results}
    cells = [[found.get((row, *column)) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=[f"{escape(model)}<br>{march.value}" for model, march in columns],
            y=[escape(shown[row]) for row in rows],
            colorscale=WORSE_BETTER,
            showscale=False,
            xgap=2,
            ygap=2,
            hovertemplate="%{y}<br>%{x}<br>%{text}<extra></extra>",
            **_show_heat(HEATS[0], cells),
        )
    )
    figure.update_traces(texttemplate="%{text}", textfont={"color": "#111111"})
    figure.update_layout(
        **_LAYOUT,
        height=150 + 24 * len(rows),
        yaxis={"autorange": "reversed", "automargin": True, "showgrid": False},
        xaxis={"side": "bottom", "showgrid": False},
        updatemenus=[buttons(HEATS, lambda axis: [{name: [value] for name, value in _show_heat(axis, cells).items()}])],
    )
    return figure


@dataclass(frozen=True)
class _Part:
    """Trials that one trace draws.

    Attributes:
        trials: in their order.
        has_bars: whether its points have error bars.
        is_named: whether the legend names it.
    """

    trials: Sequence[TrialResult]
    has_bars: bool = False
    is_named: bool = False

    def bars(self, axis: Axis) -> dict[str, list[float | None] | None]:
        """Upwards and downwards; None without error bars, which cost the browser time even where they are empty."""
        if not self.has_bars:
            return {"array": None, "arrayminus": None}
        return {
            "array": [axis.reach(result) for result in self.trials],
            "arrayminus": [axis.margin(result) for result in self.trials],
        }


def _parts(group: Sequence[TrialResult], best: Collection[str]) -> list[_Part]:
    """All in one; of very many the Pareto points by themselves, so that the others need no style of their own each.

    Nor have the others outlines, which would take a fifth of the time of drawing them.
    """
    if len(group) <= MOST_ERROR_BARS:
        return [_Part(group, has_bars=True, is_named=True)]
    others = [result for result in group if result.spec.key not in best]
    front = [result for result in group if result.spec.key in best]
    parts = [_Part(others, is_named=True), _Part(front, has_bars=True, is_named=not others)]
    return [part for part in parts if part.trials]


def _points(
    part: _Part, best: Collection[str], links: Mapping[str, str], name: str, style: dict[str, str]
) -> go.Scatter:
    group = part.trials
    bars = {"error_y": _error_bars(part.bars(QUALITIES[0]), style["color"])} if part.has_bars else {}
    return go.Scatter(
        **bars,
        showlegend=part.is_named,
        x=[LATENCY.of(result) for result in group],
        y=[QUALITIES[0].of(result) for result in group],
        name=name,
        mode="markers",
        legendgroup=name,
        marker={
            **style,
            "size": _alike([13 if result.spec.key in best else 9 for result in group]),
            "opacity": _alike([1.0 if result.spec.key in best else 0.55 for result in group]),
            "line": {"width": 1 if part.has_bars else 0, "color": "var(--card)"},
        },
        text=[escape(result.spec.settings.label) for result in group],
        customdata=[links[result.spec.key] for result in group],
        hovertemplate="%{text}<br>%{x:.3f} ms, %{y:.5g}<extra>%{fullData.name}</extra>",
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


def _alike(values: list[float]) -> list[float] | float:
    """The value that all of very many have, which a browser draws faster than a value each; else all of them."""
    return values[0] if len(set(values)) == 1 and len(values) >= MOST_ERROR_BARS else values


def _error_bars(bars: Mapping[str, list[float | None] | None], colour: str) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, **bars, "color": colour, "thickness": 1, "width": 2}


def _show_quality(axis: Axis, drawn: Sequence[_Part]) -> list[dict[str, Any]]:
    """Arguments of the button that plots ``axis``: new values of all traces, then the title that goes with them."""
    values = [[axis.of(result) for result in part.trials] for part in drawn]
    bars = [part.bars(axis) for part in drawn]
    sides = {f"error_y.{side}": [each[side] for each in bars] for side in ("array", "arrayminus")}
    return [{"y": values, **sides}, {"yaxis.title.text": axis.title}]


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


def _latency(result: TrialResult) -> float:
    return LATENCY.of(result) or 0.0


def parallel_figure(results: Sequence[TrialResult], names: ShortNames) -> go.Figure:
    """Parallel coordinates of all trials: model and swept settings to the left, figures to the right; the colour is the
    difference of accuracy."""
    usable = [result for result in results if result.accuracy is not None]
    models = [result.spec.model for result in usable]
    dimensions = [_words("model", models)] if len(set(models)) > 1 else []
    dimensions += [_words(name, short_levels(usable, name, names)) for name in varied(usable)]
    for axis in (EFFECTS[0], EFFECTS[1], LATENCY):
        values = [axis.of(result) for result in usable]
        if any(value is not None for value in values):
            dimensions.append({"label": axis.label, "values": [np.nan if v is None else v for v in values]})
    deltas = [100 * result.accuracy.delta for result in usable if result.accuracy is not None]
    figure = go.Figure(
        go.Parcoords(
            dimensions=dimensions,
            line={
                "color": deltas,
                "colorscale": SEQUENTIAL,
                "showscale": True,
                "colorbar": {"title": {"text": "Δ pt"}},
            },
            labelfont={"size": 12},
            tickfont={"size": 11},
        )
    )
    figure.update_layout(**{**_LAYOUT, "margin": {"l": 110, "r": 40, "t": 60, "b": 30}}, height=430)
    return figure


def _words(label: str, values: Sequence[str]) -> dict[str, Any]:
    """An axis over words: one tick per word, as many as can be read."""
    words = in_order(dict.fromkeys(values))
    places = {word: index for index, word in enumerate(words)}
    step = -(-len(words) // _MOST_TICKS)
    return {
        "label": label,
        "values": [places[value] for value in values],
        "tickvals": list(range(0, len(words), step)),
        "ticktext": [word[:_TICK_LENGTH] for word in words[::step]],
    }


_MOST_TICKS, _TICK_LENGTH = 20, 24
