"""The debugger's pictures: each as a PNG file (matplotlib) and as an interactive figure (plotly)."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from plotly.subplots import make_subplots

from engine.debug.analysis.accumulation import Curves
from engine.debug.analysis.distribution import Channels, ValueDistribution, ValueHistogram
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import NodeType
from engine.debug.analysis.partial import PartialQuantisation
from engine.ir import file_names, write_atomically
from engine.pages import figures_data, package_loader, packed_plotly, page_templates, rendered
from engine.pages.colours import PALETTE
from engine.visible import in_html, in_picture

RED = "#c0392b"
_LOG = logging.getLogger(__name__)
LEGEND_COLUMN = 4.0
"""Inches that a label of a curve takes at most."""
SHOWN_LABELS = 60
"""Most names on an axis of a PNG: of more, evenly spread ones; the interactive figure shows all on hover."""


def save(stem: str, png: Figure, page: Any, save_dir: Path) -> tuple[Path, Path]:
    """Write both forms of a picture as ``stem.png`` and ``stem.html``, a page without external files."""
    html = rendered(
        page_templates(package_loader("engine.debug.analysis")).get_template("figure.html.j2"),
        title=stem,
        plotly=packed_plotly(),
        data=figures_data({"figure": page}),
    )
    picture = write_atomically(save_dir / f"{stem}.png", to_png(png))
    interactive = write_atomically(save_dir / f"{stem}.html", html.encode())
    _LOG.info("written: %s, %s", picture, interactive)
    return picture, interactive


def to_png(figure: Figure) -> bytes:
    """The bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


def draw_curves(curves: Curves, save_dir: Path, stem: str = "accumulated_error") -> tuple[Path, Path]:
    """The accumulated error over the nodes, one line per variant."""
    return save(stem, curves_png(curves), curves_page(curves), save_dir)


def curves_png(curves: Curves) -> Figure:
    """See :func:`draw_curves`."""
    width = max(8.0, min(20.0, 0.12 * len(curves.nodes) + 4))
    columns = max(1, int(width / LEGEND_COLUMN))
    rows = -(-len(curves.curves) // columns)
    figure = Figure(figsize=(width, 6 + 0.17 * rows), layout="constrained")
    axes = figure.subplots()
    for curve, colour in zip(curves.curves, _cycle(len(curves.curves)), strict=True):
        axes.plot(curve.values, marker=".", markersize=4, linewidth=1.2, color=colour, label=_short(curve.label, 48))
    _name_ticks(axes, curves.nodes)
    axes.set_ylabel(curves.metric)
    axes.set_title("Accumulated error over the nodes")
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center", ncols=min(columns, len(curves.curves)))
    return figure


def curves_page(curves: Curves) -> Any:
    """See :func:`draw_curves`."""
    figure = go.Figure()
    for curve, colour in zip(curves.curves, _cycle(len(curves.curves)), strict=True):
        figure.add_scatter(
            x=list(range(len(curves.nodes))),
            y=curve.values,
            text=[in_html(name) for name in curves.nodes],
            name=in_html(curve.label),
            mode="lines+markers",
            marker={"size": 4},
            line={"color": colour},
            hovertemplate="%{text}<br>%{y:.6g}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(_layout("Accumulated error over the nodes", "node", curves.metric))
    return figure


def draw_distributions(found: Sequence[ValueDistribution], save_dir: Path) -> None:
    """Histograms before and after quantisation, and of the error: a picture and a page per node."""
    names = file_names(each.node for each in found)
    for each in found:
        save(f"{names[each.node]}_distribution", distribution_png(each), distribution_page(each), save_dir)


def distribution_title(found: ValueDistribution) -> str:
    """What the picture cannot show: cosine, range, threshold, clipped and rounded shares."""
    parts = [f"cosine {found.cosine:.6f}", f"max |x| {found.largest:.4g}"]
    if found.thresholds is not None:
        low, high = found.thresholds
        parts.append(f"threshold {low:.4g}" if low == high else f"thresholds {low:.4g} to {high:.4g}")
    if found.clipped is not None and found.rounded is not None:
        parts.append(f"clipped {found.clipped:.3%}, rounded to zero {found.rounded:.3%}")
    return " · ".join(parts)


def _panels(found: ValueDistribution) -> list[tuple[str, ValueHistogram, str]]:
    kind = {NodeType.NODE: "result", NodeType.WEIGHT: "weight", NodeType.ACTIVATION: "activation"}[found.kind]
    return [
        (f"{kind}, float", found.before, PALETTE[0]),
        (f"{kind}, quantised", found.after, PALETTE[2]),
        ("error", found.error, PALETTE[1]),
    ]


def distribution_png(found: ValueDistribution) -> Figure:
    """See :func:`draw_distributions`."""
    figure = Figure(figsize=(13, 4.2))
    figure.subplots_adjust(left=0.055, right=0.985, top=0.8, bottom=0.09, wspace=0.2)
    figure.suptitle(f"{in_picture(found.node)}\n{distribution_title(found)}", fontsize=10)
    for axes, (title, histogram, colour) in zip(figure.subplots(1, 3), _panels(found), strict=True):
        axes.stairs(histogram.counts, histogram.edges, fill=True, color=colour)
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.set_ylabel("count (log)", fontsize=8)
        axes.tick_params(labelsize=8)
        if title != "error":
            _mark_limits(axes, found, histogram)
    return figure


def _mark_limits(axes: Axes, found: ValueDistribution, histogram: ValueHistogram) -> None:
    """Blue triangle: largest magnitude; red dashed lines: the least threshold, where it is in the picture or near."""
    low, high = float(histogram.edges[0]), float(histogram.edges[-1])
    side = found.largest if found.largest <= high else -found.largest
    axes.plot([side], [0], marker="^", color="blue", markersize=8, clip_on=False, zorder=5)
    for limit in _limits(found, low, high):
        axes.axvline(limit, color=RED, linestyle="--", linewidth=1)


def _limits(found: ValueDistribution, low: float, high: float) -> list[float]:
    if found.thresholds is None:
        return []
    margin = 0.25 * (high - low)
    return [side for side in (-found.thresholds[0], found.thresholds[0]) if low - margin <= side <= high + margin]


def distribution_page(found: ValueDistribution) -> Any:
    """See :func:`draw_distributions`."""
    panels = _panels(found)
    figure = make_subplots(1, 3, subplot_titles=[title for title, _, _ in panels], horizontal_spacing=0.06)
    for column, (title, histogram, colour) in enumerate(panels, 1):
        centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
        figure.add_bar(
            x=centres.tolist(),
            y=histogram.counts.tolist(),
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{x:.4g}: %{y}<extra></extra>",
            row=1,
            col=column,
        )
        if title != "error":
            for limit in _limits(found, float(histogram.edges[0]), float(histogram.edges[-1])):
                figure.add_vline(limit, line={"color": RED, "dash": "dash"}, row=1, col=column)
    figure.update_yaxes(type="log", dtick=1)
    title_text = f"{in_html(found.node)}<br><span style='font-size:12px'>{distribution_title(found)}</span>"
    figure.update_layout(_layout(title_text, None, None), bargap=0, showlegend=False, height=430)
    figure.update_layout(margin={"t": 110})
    figure.update_annotations(font={"size": 12})
    return figure


def draw_channels(found: Sequence[Channels], save_dir: Path) -> None:
    """One box per channel: range, quartiles, median red, mean dashed blue, threshold; a picture and a page per node."""
    names = file_names(each.node for each in found)
    for each in found:
        save(f"{names[each.node]}_channels", channels_png(each), channels_page(each), save_dir)


def channels_title(found: Channels) -> str:
    """Node, number of channels, axis."""
    return f"{found.node}: {found.kind.value}, {len(found.median)} channels of axis {found.axis}"


def channels_png(found: Channels) -> Figure:
    """See :func:`draw_channels`. Drawn as filled bars: as many channels as there are stay readable."""
    count = len(found.median)
    width = max(8.0, min(24.0, 0.08 * count + 5))
    figure = Figure(figsize=(width, 5))
    figure.subplots_adjust(left=0.75 / width, right=1 - 0.2 / width, top=0.92, bottom=0.11)
    axes = figure.subplots()
    x = np.arange(count)
    axes.vlines(x, found.minimum, found.maximum, color="#999999", linewidth=max(0.4, min(1.5, 150 / count)))
    sides = np.stack([x - 0.35, x - 0.35, x + 0.35, x + 0.35], axis=1)
    heights = np.stack([found.lower, found.upper, found.upper, found.lower], axis=1)
    boxes = PolyCollection(list(np.stack([sides, heights], axis=2)), facecolor="#9ecae1", label="quartiles", zorder=2)
    axes.add_collection(boxes)
    axes.hlines(found.median, x - 0.4, x + 0.4, color="red", linewidth=1.2, label="median", zorder=3)
    axes.plot(x, found.mean, color="blue", linestyle="--", linewidth=0.8, label="mean")
    axes.step(x, found.thresholds, where="mid", color=RED, linewidth=0.9, linestyle=":", label="± threshold")
    axes.step(x, -found.thresholds, where="mid", color=RED, linewidth=0.9, linestyle=":")
    axes.set_xlim(-1, count)
    axes.xaxis.set_major_locator(MaxNLocator(30, integer=True))
    axes.set_xlabel("channel")
    axes.set_title(in_picture(channels_title(found)), fontsize=10)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, ncols=4)
    return figure


def channels_page(found: Channels) -> Any:
    """See :func:`draw_channels`."""
    x = list(range(len(found.median)))
    figure = go.Figure()
    figure.add_box(
        x=x,
        lowerfence=found.minimum.tolist(),
        q1=found.lower.tolist(),
        median=found.median.tolist(),
        q3=found.upper.tolist(),
        upperfence=found.maximum.tolist(),
        mean=found.mean.tolist(),
        boxpoints=False,
        name="channel",
        line={"width": 1, "color": PALETTE[0]},
    )
    for sign, shown in ((1, True), (-1, False)):
        figure.add_scatter(
            x=x,
            y=(sign * found.thresholds).tolist(),
            mode="lines",
            line={"color": RED, "dash": "dot", "shape": "hvh"},
            name="± threshold",
            showlegend=shown,
        )
    figure.update_layout(_layout(in_html(channels_title(found)), "channel", "value"), height=450)
    return figure


def _layout(title: str | None, x: str | None, y: str | None) -> dict[str, Any]:
    return {
        **({} if title is None else {"title": {"text": title, "font": {"size": 14}}}),
        "xaxis_title": x,
        "yaxis_title": y,
        "template": "plotly_white",
        "margin": {"l": 60, "r": 20, "t": 20 if title is None else 70, "b": 50},
    }


def _name_ticks(axes: Axes, names: Sequence[str]) -> None:
    """Names of nodes under the axis, as many as can be read."""
    step = -(-len(names) // SHOWN_LABELS) or 1
    axes.set_xticks(range(0, len(names), step), [_short(name) for name in names[::step]], rotation=90, fontsize=6)
    axes.set_xlim(-1, len(names))


def _short(name: str, length: int = 28) -> str:
    return in_picture(name if len(name) <= length else f"…{name[1 - length :]}")


def _cycle(count: int) -> list[str]:
    """``count`` different colours, from a rainbow if there are many."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    return [to_hex(colormaps["turbo"](index / (count - 1))) for index in range(count)]


def ranking_png(title: str, metric: DistanceMeasure, values: Mapping[str, float]) -> Figure:
    """Sensitivity of nodes, the worst first, as bars: of a cosine its distance to 1, on a logarithmic scale."""
    figure = Figure(figsize=(max(8.0, min(20.0, 0.12 * len(values) + 4)), 5), layout="constrained")
    axes = figure.subplots()
    heights, label = _heights(metric, list(values.values()))
    axes.bar(range(len(heights)), heights, color=PALETTE[0])
    if metric is not DistanceMeasure.SQNR and any(height > 0 for height in heights):
        axes.set_yscale("log")
    _name_ticks(axes, list(values))
    axes.set_ylabel(label)
    axes.set_title(f"Sensitivity: {title}")
    axes.grid(axis="y", alpha=0.3)
    return figure


def ranking_page(metric: DistanceMeasure, values: Mapping[str, float], targets: Mapping[str, str] | None = None) -> Any:
    """See :func:`ranking_png`; the page's heading is the title. Nodes in ``targets`` have a colour and an id there."""
    heights, label = _heights(metric, list(values.values()))
    linked = targets or {}
    figure = go.Figure()
    figure.add_bar(
        x=list(range(1, len(heights) + 1)),
        y=heights,
        customdata=[[in_html(name), value, linked.get(name, "")] for name, value in values.items()],
        hovertemplate="%{x}. %{customdata[0]}<br>" + metric + " %{customdata[1]:.8g}<extra></extra>",
        marker={"color": [PALETTE[1] if name in linked else PALETTE[0] for name in values]},
    )
    if metric is not DistanceMeasure.SQNR:
        figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    figure.update_layout(_layout(None, "rank", label), height=360)
    return figure


def _heights(metric: DistanceMeasure, values: Sequence[float]) -> tuple[list[float], str]:
    """What bars show of a metric, and the name of that; infinity has no bar."""
    if metric is DistanceMeasure.COSINE:
        return [max(1 - value, 0.0) for value in values], f"1 - {metric}"
    return [value if math.isfinite(value) else 0.0 for value in values], str(metric)


def draw_partial_quantisation(found: PartialQuantisation, save_dir: Path) -> tuple[Path, Path]:
    """Baseline, cumulative line, and a cross per sensitive node."""
    names = list(found.sensitive)
    png = Figure(figsize=(max(8.0, min(20.0, 0.15 * len(names) + 4)), 5), layout="constrained")
    axes = png.subplots()
    axes.axhline(found.baseline, color="#666666", linestyle="--", label="all quantised")
    axes.plot(found.cumulative, marker=".", color=PALETTE[0], label="first n nodes not quantised")
    axes.plot(found.single, "x", color=PALETTE[1], label="this node alone not quantised")
    _name_ticks(axes, names)
    axes.set_ylabel(found.metric)
    axes.set_title("Partial quantisation of the sensitive nodes")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    page, shown = go.Figure(), [in_html(name) for name in names]
    for values, name, mode, style in (
        (
            [found.baseline] * max(1, len(names)),
            "all quantised",
            "lines",
            {"line": {"dash": "dash", "color": "#666666"}},
        ),
        (found.cumulative, "first n nodes not quantised", "lines+markers", {"line": {"color": PALETTE[0]}}),
        (found.single, "this node alone not quantised", "markers", {"marker": {"symbol": "x", "color": PALETTE[1]}}),
    ):
        page.add_scatter(x=list(range(len(values))), y=values, text=shown, name=name, mode=mode, **style)
    page.update_traces(hovertemplate="%{text}<br>%{y:.6g}")
    page.update_layout(_layout("Partial quantisation of the sensitive nodes", "sensitive node", found.metric))
    return save("partial_quantization", png, page, save_dir)
