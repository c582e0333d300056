"""``ptqlab explain``: a model's graph, the placement of its nodes with reasons and hints, and what they cost.

It also lists the operators that the fast simulator has no instructions for.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.lab.options import InputShapes, NodeInfoText, read_march, read_node_info, read_shapes
from engine.pages import rendered

if TYPE_CHECKING:
    from engine.convert import ConversionResult
    from engine.simulate.assemble import Interpreted


@dataclass(frozen=True)
class Explained:
    """One node of the quantised network.

    Attributes:
        name: of the node.
        on: ``BPU`` or ``CPU``.
        subgraph: number of its BPU subgraph.
        type: operator of the quantised graph.
        data_type: of its first input.
        shape: of its output; in the layout of the quantised graph.
        time_us: microseconds of the layer if it ran alone (the longer of computing and transfer); ``None`` on the CPU.
        bytes: bytes over DDR; ``None`` on the CPU.
        reason: why it runs on the CPU.
        hint: what to change so that it would not.
        reads: names of the nodes whose results it reads.
        unmeasured: operator and rank that no measured conversion has, and quirks of the original that decided it.
    """

    name: str
    on: str
    subgraph: int | None
    type: str
    data_type: str
    shape: tuple[int, ...]
    time_us: float | None
    bytes: int | None
    reason: str
    hint: str
    reads: tuple[str, ...]
    unmeasured: str


def explain(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Float model.")],
    march: Annotated[str, typer.Option(help="BPU architecture.")] = "bayes-e",
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a self-contained HTML page.")] = None,
    input_shape: InputShapes = None,
    node_info: NodeInfoText = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where each operator runs and why, what to change and what it costs; needs no calibration data."""
    from engine.conformance.disagreements import warnings_for
    from engine.convert import Draft, check
    from engine.ir import refuse_overwriting, write_atomically
    from engine.simulate.assemble import assemble

    refuse_overwriting([html], [model])
    result = check(model, Draft(read_march(march), read_shapes(input_shape), node_info=read_node_info(node_info)))
    nodes, interpreted = explained(result), assemble(result.compiled.model).interpreted
    doubts = warnings_for(result.models["original_float"], result.performance.march)
    if as_json:
        typer.echo(json.dumps({"nodes": [asdict(node) for node in nodes], "warnings": doubts}, indent=2))
    else:
        _show(result, nodes, interpreted, doubts)
    if html is not None:
        typer.echo(write_atomically(html, page(result, nodes, interpreted, doubts).encode()), err=as_json)


def explained(result: ConversionResult) -> tuple[Explained, ...]:
    """The rows of the page, in running order."""
    from engine.ir import shape_of
    from engine.ops.core.reasons import sentence
    from engine.place.hints import hint_for

    layers = {layer.name: layer for layer in result.performance.layers}
    nodes = {str(node.name): node for node in result.compiled.model.graph}
    sources = _sources(result)
    rows = []
    for row in result.nodes:
        layer = layers.get(row.node)
        rows.append(
            Explained(
                name=row.node,
                on=row.on,
                subgraph=row.subgraph,
                type=row.type,
                data_type=row.data_type,
                shape=shape_of(nodes[row.node].outputs[0]),
                time_us=None if layer is None else layer.latency_us,
                bytes=None if layer is None else layer.loaded_bytes + layer.stored_bytes,
                reason=sentence(row.reason),
                hint="" if row.reason is None else hint_for(row.type, row.reason),
                reads=sources[row.node],
                unmeasured=row.remarks,
            )
        )
    return tuple(rows)


def _sources(result: ConversionResult) -> dict[str, tuple[str, ...]]:
    """Names of the listed nodes that each node reads from, seen through nodes that are not listed."""
    listed = {row.node for row in result.nodes}
    behind: dict[str, tuple[str, ...]] = {}
    for node in result.compiled.model.graph:
        producers = [value.producer() for value in node.inputs if value is not None]
        found: dict[str, None] = {}
        for producer in producers:
            if producer is not None:
                name = str(producer.name)
                found.update(dict.fromkeys((name,) if name in listed else behind[name]))
        behind[str(node.name)] = tuple(found)
    return {name: behind[name] for name in listed}


def page(
    result: ConversionResult,
    nodes: tuple[Explained, ...],
    interpreted: tuple[Interpreted, ...] = (),
    doubts: tuple[str, ...] = (),
) -> str:
    """The page: totals, the graph as SVG, a table of nodes, warnings, what is simulated slowly. It loads nothing."""
    from importlib.resources import files

    import jinja2

    text = (files("engine.cli.lab") / "templates" / "explain.html.j2").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    slowest = max((node.time_us or 0.0 for node in nodes), default=0.0)
    return rendered(
        environment.from_string(text),
        name=result.name,
        nodes=nodes,
        performance=result.performance,
        places=places(nodes),
        slowest=slowest or 1.0,
        interpreted=interpreted,
        doubts=doubts,
    )


def places(nodes: tuple[Explained, ...]) -> dict[str, tuple[int, int]]:
    """Column and row of each node in the picture: the row is the longest way from an input."""
    rows: dict[str, int] = {}
    used: dict[int, int] = {}
    found = {}
    for node in nodes:
        row = 1 + max((rows[source] for source in node.reads), default=-1)
        rows[node.name] = row
        found[node.name] = (used.get(row, 0), row)
        used[row] = used.get(row, 0) + 1
    return found


def _show(
    result: ConversionResult,
    nodes: tuple[Explained, ...],
    interpreted: tuple[Interpreted, ...],
    doubts: tuple[str, ...],
) -> None:
    from rich.text import Text

    from engine.cli.console import open_console, plain_table

    words = ("reason and what to change",)
    table = plain_table("node", "on", "type", "dtype", "shape", figures=("us", "DDR bytes"), words=words)
    for node in nodes:
        on = node.on if node.subgraph is None else f"{node.on} {node.subgraph}"
        time = "" if node.time_us is None else f"{node.time_us:.1f}"
        traffic = "" if node.bytes is None else str(node.bytes)
        shape = "x".join(map(str, node.shape))
        why = "; ".join(filter(None, (node.reason, node.hint if node.reason else "", node.unmeasured)))
        style = "yellow" if node.on == "CPU" else None
        cells = (node.name, on, node.type, node.data_type, shape, time, traffic, why)
        table.add_row(*map(Text, cells), style=style)  # names are no markup
    console = open_console()
    console.print(table)
    found = result.performance
    console.print(
        f"{result.name} on {found.march}: {found.latency_us:.1f} us, {found.ddr_bytes} bytes of DDR traffic, "
        f"{len(found.subgraphs)} BPU subgraphs, {len(found.cpu_nodes)} CPU nodes (not in the latency)",
        highlight=False,
        markup=False,
    )
    if interpreted:
        console.print(
            "The fast simulator has no instruction for these nodes and computes them slowly:", highlight=False
        )
    for entry in interpreted:
        console.print(f"  {entry.node} ({entry.op_type}): {entry.reason}", highlight=False, markup=False)
    for text in doubts:
        console.print(f"WARNING: {text}", highlight=False, markup=False)
