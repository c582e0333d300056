"""The files of ``hb_perf``: a page and a JSON summary per subgraph, a page and a picture of the whole model."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import plotly.graph_objects as go

from engine.board import stored_times
from engine.chips import load_chip
from engine.chips.latency import load_latency
from engine.compile import CompiledModel
from engine.compile.schedule import Schedule
from engine.ir import file_names, write_atomically
from engine.page_links import PageKind, identity, write_page
from engine.pages import GraphNode, figures_data, graph_data, package_loader, packed_plotly, page_templates, rendered
from engine.pages.colours import BPU_COLOUR, CPU_COLOUR, PALETTE
from engine.perf.performance import Performance, SubgraphPerformance, estimate, frames_per_run
from engine.perf.structure import Structure, structure_of
from engine.perf.timeline import INTERVAL_US, Interval, LayerTimes, intervals, timeline
from engine.terms import Device
from engine.version import installed_version
from engine.visible import in_html, in_picture

ENGINES = {"load": PALETTE[0], "compute": PALETTE[2], "store": PALETTE[1]}
"""Colours of the engines in the timeline."""
FIGURE_INTERVALS = 60
"""Steps of the picture of utilisation over time."""


@dataclass(frozen=True)
class SubgraphView:
    """A subgraph with its schedule, figures and timeline."""

    schedule: Schedule
    figures: SubgraphPerformance

    @cached_property
    def times(self) -> tuple[LayerTimes, ...]:
        """When each layer is active."""
        return timeline(self.figures)

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """Utilisation over time."""
        return intervals(self.times)


def write_report(compiled: CompiledModel, folder: Path) -> Path:
    """Write all files of a model into ``folder/<name>``.

    ``<name>.html``: summary, subgraphs, structure; ``<name>.png`` and ``<name>`` (dot text): the structure;
    ``<subgraph>.html`` and ``<subgraph>.json``: one subgraph, layers only if it was compiled with ``debug``.

    Returns:
        The page of the model.
    """
    performance = estimate(compiled, stored_times(compiled.march))
    views = [SubgraphView(*pair) for pair in zip(compiled.schedules, performance.subgraphs, strict=True)]
    names = file_names([compiled.name, *(view.figures.name for view in views)])
    name = names[compiled.name]
    target = folder / name
    # What cannot be shown is found before a file is written.
    summaries = [subgraph_summary(compiled, view) for view in views]
    for view, content in zip(views, summaries, strict=True):
        own = names[view.figures.name]
        write_atomically(target / f"{own}.json", json.dumps({"summary": content}, indent=2).encode())
        write_atomically(target / f"{own}.html", _subgraph_page(compiled, view, f"{name}.html").encode())
    structure = structure_of(compiled)
    write_atomically(target / name, structure.dot().encode())
    write_atomically(target / f"{name}.png", structure_png(structure))
    return write_page(target / f"{name}.html", _model_page(compiled, performance, structure, names))


def subgraph_summary(compiled: CompiledModel, view: SubgraphView) -> dict[str, Any]:
    """The ``summary`` of a subgraph's JSON file."""
    figures, options = view.figures, compiled.options
    fps = 1e6 / figures.latency_us
    total = figures.loaded_bytes + figures.stored_bytes
    frames = frames_per_run(compiled.model)
    summary: dict[str, Any] = {
        "model name": figures.name,
        "BPU OPs per frame": figures.ops // frames,
        "BPU OPs per run": figures.ops,
        "BPU OPs per second": figures.ops * fps,
        "BPU PE number": load_latency(compiled.march).cores,
        "BPU core number": options.core_num,
        "BPU march": load_chip(compiled.march).title,
        "DDR bytes per frame": total // frames,
        "DDR bytes per run": total,
        "DDR bytes per second": total * fps,
        "DDR megabytes per frame": total / frames / 2**20,
        "DDR megabytes per run": total / 2**20,
        "DDR megabytes per second": total * fps / 2**20,
        "FPS": fps * frames,
        "frame per run": frames,
        "frame per second": fps * frames,
        "runs per second": fps,
        "latency (ms)": figures.latency_us / 1e3,
        "latency (us)": figures.latency_us,
        "latency (ms) by segments": [figures.latency_us / 1e3],
        "latency (us) by segments": [figures.latency_us],
        "loaded bytes per frame": figures.loaded_bytes // frames,
        "loaded bytes per run": figures.loaded_bytes,
        "stored bytes per frame": figures.stored_bytes // frames,
        "stored bytes per run": figures.stored_bytes,
        "compiling options": options.model_dump(mode="json"),
        "optimize level": options.optimize_level.value,
        "compile mode": options.compile_mode.value,
        "compiler version": installed_version(),
        "input features": [tensor.model_dump(mode="json") for tensor in view.schedule.inputs],
        "output features": list(view.schedule.outputs),
        "layers": len(figures.layers),
        "function calls": figures.function_calls,
        "interval time (ms)": INTERVAL_US / 1e3,
        "interval number": len(view.intervals),
        "interval computing unit utilization": [round(entry.computing, 4) for entry in view.intervals],
        "interval loading bandwidth (bytes)": [round(entry.loaded_bytes) for entry in view.intervals],
        "interval storing bandwidth (bytes)": [round(entry.stored_bytes) for entry in view.intervals],
        "computing unit utilization": _computing_share(view),
        "note": "estimated by a model of the compiler, not measured on a board",
    }
    if options.debug:
        summary["layer details"] = [_layer_details(entry) for entry in view.times]
    return summary


def _layer_details(entry: LayerTimes) -> dict[str, Any]:
    layer = entry.layer
    return {
        "layer": layer.name,
        "type": layer.op_type,
        "ops": layer.ops,
        "original output shape": list(layer.output_shape),
        "aligned output shape": list(layer.aligned_shape),
        "computing cost (us)": round(layer.compute_us, 3),
        "load/store cost (us)": round(layer.transfer_us, 3),
        "overhead (us)": round(layer.overhead_us, 3),
        "part of the latency (us)": round(layer.latency_us, 3),
        "active period of time (us)": [round(entry.active.start, 1), round(entry.active.end, 1)],
    }


def _computing_share(view: SubgraphView) -> float:
    """Share of the latency in which the computing unit works."""
    return sum(entry.compute.length for entry in view.times) / view.figures.latency_us


def _model_page(
    compiled: CompiledModel, performance: Performance, structure: Structure, names: Mapping[str, str]
) -> str:
    """``names``: file names of the subgraphs."""
    return _render(
        "model.html.j2",
        identity=identity(PageKind.PERFORMANCE, compiled.model),
        compiled=compiled,
        march=load_chip(compiled.march).title,
        performance=performance,
        names=names,
        accuracy=performance.uncertainty,
        graphs={"structure": graph_data(_graph(structure, performance, names))},
    )


def _subgraph_page(compiled: CompiledModel, view: SubgraphView, model_page: str) -> str:
    """``model_page``: file name of the page of the model."""
    figures = {"utilisation": _utilisation_figure(view), "roofline": _roofline_figure(compiled, view)}
    if compiled.options.debug:
        figures["timeline"] = _timeline_figure(view)
    return _render(
        "subgraph.html.j2",
        compiled=compiled,
        march=load_chip(compiled.march).title,
        view=view,
        model_page=model_page,
        details=[_layer_details(entry) for entry in view.times] if compiled.options.debug else [],
        computing=_computing_share(view),
        frames=frames_per_run(compiled.model),
        figures=figures,
    )


def _render(
    template: str,
    figures: Mapping[str, go.Figure] | None = None,
    graphs: Mapping[str, Any] | None = None,
    **values: Any,
) -> str:
    """A page; ``figures`` and ``graphs`` by the id of their place."""
    return rendered(
        page_templates(package_loader("engine.perf")).get_template(template),
        plotly=packed_plotly() if figures else "",
        data=figures_data(dict(figures or {}), graphs=graphs or {}),
        figures=sorted(figures or {}),
        version=installed_version(),
        **values,
    )


def _utilisation_figure(view: SubgraphView) -> go.Figure:
    """Computing unit and DDR bandwidth over time."""
    end = view.figures.latency_us
    entries = intervals(view.times, end / FIGURE_INTERVALS)
    length = end / FIGURE_INTERVALS
    series = (
        ("computing unit, %", [100 * entry.computing for entry in entries], "y", ENGINES["compute"]),
        ("loaded, GB/s", [entry.loaded_bytes / length / 1e3 for entry in entries], "y2", ENGINES["load"]),
        ("stored, GB/s", [entry.stored_bytes / length / 1e3 for entry in entries], "y2", ENGINES["store"]),
    )
    figure = go.Figure()
    for name, values, axis, colour in series:
        line = {"color": colour, "width": 2, "shape": "hv"}
        times = [*(entry.start_us / 1e3 for entry in entries), *([end / 1e3] if entries else [])]
        figure.add_scatter(x=times, y=[*values, *values[-1:]], name=name, mode="lines", line=line, yaxis=axis)
    figure.update_layout(
        _layout(300),
        xaxis={"title": {"text": "ms"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "computing unit, %"}, "range": [0, 105]},
        yaxis2={"title": {"text": "GB/s"}, "overlaying": "y", "side": "right", "rangemode": "tozero"},
    )
    return figure


def _timeline_figure(view: SubgraphView) -> go.Figure:
    """A bar per layer and engine."""
    figure = go.Figure()
    for engine, colour in ENGINES.items():
        entries = [entry for entry in view.times if getattr(entry, engine).length]
        spans = [getattr(entry, engine) for entry in entries]
        figure.add_bar(
            y=[engine] * len(spans),
            x=[span.length for span in spans],
            base=[span.start for span in spans],
            name=engine,
            orientation="h",
            marker={"color": colour, "line": {"color": "white", "width": 0.4}},
            customdata=[[in_html(entry.layer.name), in_html(entry.layer.op_type)] for entry in entries],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{base:.1f} us, %{x:.1f} us long<extra>"
            + engine
            + "</extra>",
            showlegend=False,
        )
    figure.update_layout(
        _layout(220), barmode="overlay", xaxis={"title": {"text": "us"}}, yaxis={"autorange": "reversed"}
    )
    return figure


def _roofline_figure(compiled: CompiledModel, view: SubgraphView) -> go.Figure:
    """Operations per second of each layer against operations per byte of traffic, under the march's two roofs."""
    fitted = load_latency(compiled.march).fitted
    peak, bandwidth = 2 * fitted.mac_rate / 1e3, fitted.load_gbps
    layers = [layer for layer in view.figures.layers if layer.ops]
    intensities = [layer.ops / max(layer.loaded_bytes + layer.stored_bytes, 1) for layer in layers]
    rates = [layer.ops / max(layer.compute_us + layer.transfer_us, 1e-3) / 1e6 for layer in layers]
    ridge = peak * 1e3 / bandwidth
    low, high = min([*intensities, ridge]) / 4, max([*intensities, ridge]) * 4
    figure = go.Figure()
    figure.add_scatter(
        x=[low, ridge, high],
        y=[low * bandwidth / 1e3, peak, peak],
        mode="lines",
        line={"color": "var(--ink)", "width": 2},
        name=f"{peak:.2f} Tops, {bandwidth:.1f} GB/s",
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=intensities,
        y=rates,
        mode="markers",
        marker={"color": ENGINES["compute"], "size": 9, "line": {"color": "white", "width": 1}},
        text=[f"{in_html(layer.name)}<br>{in_html(layer.op_type)}" for layer in layers],
        hovertemplate="%{text}<br>%{x:.1f} OPs/byte, %{y:.3f} Tops<extra></extra>",
        name="layers",
    )
    figure.update_layout(
        _layout(340),
        xaxis={"type": "log", "title": {"text": "OPs per byte of DDR traffic"}},
        yaxis={"type": "log", "title": {"text": "Tops"}},
    )
    return figure


def _graph(structure: Structure, performance: Performance, names: Mapping[str, str]) -> list[GraphNode]:
    """Subgraphs and CPU nodes with what they cost, for the page; ``names``: file names of the subgraphs."""
    reads: dict[str, list[str]] = {part.name: [] for part in structure.nodes}
    for source, target in structure.edges:
        reads[target].append(source)
    times = {part.name: part.latency_us for part in performance.subgraphs}
    times |= {cost.name: cost.us for cost in performance.cpu_costs}
    return [
        GraphNode(
            name=part.name,
            type=part.kind,
            on=part.device.value,
            detail=f"{times[part.name] / 1e3:.3f} ms" if part.name in times else "",
            cost=times.get(part.name),
            reads=tuple(reads[part.name]),
            href=f"{quote(names[part.name])}.html" if part.device is Device.BPU else "",
        )
        for part in structure.nodes
    ]


def structure_png(structure: Structure) -> bytes:
    """The structure as a PNG picture."""
    from matplotlib.figure import Figure

    places = structure.places()
    depth = max((y for _, y in places.values()), default=0.0) + 1
    width = max((x for x, _ in places.values()), default=0.0) + 1
    picture = Figure(figsize=(max(4.0, 3.2 * width), max(2.0, 0.8 * depth)))
    axes = picture.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-0.6, width - 0.4)
    axes.set_ylim(depth - 0.5, -0.5)
    for source, target in structure.edges:
        axes.annotate(
            "",
            xy=(places[target][0], places[target][1] - 0.25),
            xytext=(places[source][0], places[source][1] + 0.25),
            arrowprops={"arrowstyle": "-|>", "color": "#6b7280"},
        )
    for node in structure.nodes:
        colour = BPU_COLOUR if node.device is Device.BPU else CPU_COLOUR
        box = {"boxstyle": "round,pad=0.4", "facecolor": colour, "edgecolor": "none"}
        label = in_picture(node.label)
        axes.text(*places[node.name], label, ha="center", va="center", color="white", fontsize=8, bbox=box)
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return buffer.getvalue()


def _layout(height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 60, "r": 60, "t": 20, "b": 45},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    }
