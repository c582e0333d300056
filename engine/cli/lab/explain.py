"""``ptqlab explain``: a model's graph, the placement of its nodes with reasons and hints, and what they cost.

It also lists the operators that the fast simulator has no instructions for.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH
from engine.cli.console import say
from engine.cli.lab.options import InputShapes, NodeInfoText, read_march, read_node_info
from engine.cli.named import FixedInputs, read_fixed, read_shapes
from engine.errors import ConfigError
from engine.terms import Device

if TYPE_CHECKING:
    from engine.convert import ConversionResult
    from engine.rulebook.known import Known
    from engine.simulate.assemble import Interpreted

EQUAL_THRESHOLDS = (
    "equal, since no data are read. Where those of your data differ (before a Concat, for example), integers are "
    "rescaled: makertbin then gives another latency and DDR traffic, and so does explain --config after it"
)
"""What the figures rest on where there is no earlier conversion."""


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
        unmeasured: operator and rank that no measured conversion has, and rules that cost accuracy there.
        rules: ids of the rules that decided where it runs, and how what it reads is quantised.
        doubt: why it is not known that the original converts it so; empty where it is.
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
    rules: tuple[str, ...]
    doubt: str = ""


def explain(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Float model.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", exists=True, dir_okay=False, help="Its configuration; no calibration data are read."
        ),
    ] = None,
    march: Annotated[str | None, typer.Option(help="BPU architecture; default: bayes-e.", show_default=False)] = None,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a self-contained HTML page.")] = None,
    input_shape: InputShapes = None,
    fix: FixedInputs = None,
    node_info: NodeInfoText = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show where each operator runs and why, what to change and what it costs; needs no calibration data.

    With --config, march, inputs and options are those of the YAML file, and warnings concern its settings too.
    """
    from engine.conformance.disagreements import warnings_for
    from engine.ir import refuse_overwriting
    from engine.page_links import write_page
    from engine.simulate.assemble import assemble

    refuse_overwriting([html], [model, config])
    if config is None:
        result, settings = _drafted(model, march or DEFAULT_MARCH, input_shape, fix, node_info)
        basis = EQUAL_THRESHOLDS
    elif march is None and input_shape is None and fix is None and node_info is None:
        result, settings, basis = _configured(model, config)
    else:
        raise ConfigError("--march, --input-shape, --fix and --node-info: the file of --config has them")
    nodes, interpreted = explained(result), assemble(result.compiled.model).interpreted
    doubts = warnings_for(result.models["original_float"], result.performance.march, settings)
    if as_json:
        known = known_of(nodes)
        content = {
            "nodes": [asdict(node) for node in nodes],
            "known": asdict(known),
            "warnings": doubts,
            "thresholds": basis,
        }
        say(json.dumps(content, indent=2))
    else:
        _show(model, result, nodes, interpreted, doubts, basis)
    if html is not None:
        say(write_page(html, page(result, nodes, interpreted, doubts)), err=as_json)


def _drafted(
    model: Path, march: str, input_shape: list[str] | None, fix: list[str] | None, node_info: str | None
) -> tuple[ConversionResult, frozenset[str]]:
    """The network as the options want it, and what disagreements may rest on."""
    from engine.conformance.disagreements import DEFAULT_SETTINGS, INT16, asks_int16
    from engine.convert import Draft, check

    requests = read_node_info(node_info)
    settings = DEFAULT_SETTINGS | ({INT16} if asks_int16(requests.values()) else frozenset())
    draft = Draft(read_march(march), read_shapes(input_shape), node_info=requests, fixed=read_fixed(fix))
    return check(model, draft), settings


def _configured(model: Path, config: Path) -> tuple[ConversionResult, frozenset[str], str]:
    """The network as a configuration wants it, what disagreements may rest on, and what its thresholds are."""
    from engine.config import load_config
    from engine.conformance.disagreements import settings_of
    from engine.convert import check_configured
    from engine.convert.checker import is_of
    from engine.convert.items import CALIBRATED
    from engine.errors import PtqlabError
    from engine.ir import load_model

    wanted = load_config(config).of_model(model)
    parameters = wanted.model_parameters
    file = Path(parameters.working_dir) / f"{parameters.output_model_file_prefix}_{CALIBRATED.name}_model.onnx"
    calibrated = None
    if file.is_file():
        try:
            calibrated = load_model(file)
        except PtqlabError:  # whatever lies there, it is no model of an earlier conversion
            calibrated = None
    result = check_configured(wanted, calibrated)
    same = calibrated is not None and is_of(result.models[CALIBRATED.name], calibrated)
    basis = f"those of {file}: makertbin gave the same latency and DDR traffic" if same else EQUAL_THRESHOLDS
    return result, settings_of(wanted), basis


def explained(result: ConversionResult) -> tuple[Explained, ...]:
    """The rows of the page, in running order."""
    from engine.ir import shape_of
    from engine.ops.core.reasons import sentence
    from engine.place.hints import hint_for

    layers = {layer.name: layer for layer in result.performance.layers}
    nodes = {str(node.name): node for node in result.compiled.model.graph}
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
                reads=row.reads,
                unmeasured=row.remarks,
                rules=row.rules,
                doubt=row.doubt,
            )
        )
    return tuple(rows)


def known_of(nodes: tuple[Explained, ...]) -> Known:
    """How far the conversion is known."""
    from engine.rulebook.known import Known

    return Known.of((node.name, node.doubt) for node in nodes)


def page(
    result: ConversionResult,
    nodes: tuple[Explained, ...],
    interpreted: tuple[Interpreted, ...] = (),
    doubts: tuple[str, ...] = (),
) -> str:
    """The page: totals, the graph, a table of nodes, warnings, what is simulated slowly. It loads nothing."""
    from engine.page_links import PageKind, identity
    from engine.pages import GraphNode, figures_data, graph_data, package_loader, page_templates, rendered
    from engine.rulebook.known import how_to_settle

    slowest = max((node.time_us or 0.0 for node in nodes), default=0.0)
    graph = [
        GraphNode(
            name=node.name,
            type=node.type,
            on=node.on,
            detail="" if node.time_us is None else f"{node.time_us:.1f} us",
            note=node.reason,
            cost=node.time_us,
            reads=node.reads,
            href=f"#node-{index}",
        )
        for index, node in enumerate(nodes, 1)
    ]
    return rendered(
        page_templates(package_loader("engine.cli.lab")).get_template("explain.html.j2"),
        identity=identity(PageKind.PLACEMENT, result.compiled.model),
        name=result.name,
        nodes=nodes,
        performance=result.performance,
        slowest=slowest or 1.0,
        interpreted=interpreted,
        doubts=doubts,
        known=known_of(nodes),
        how_to_settle=how_to_settle(),
        plotly="",
        data=figures_data({}, graphs={"graph": graph_data(graph)}),
    )


def _show(
    model: Path,
    result: ConversionResult,
    nodes: tuple[Explained, ...],
    interpreted: tuple[Interpreted, ...],
    doubts: tuple[str, ...],
    thresholds: str,
) -> None:
    from engine.cli.console import open_console
    from engine.cli.listing import Listing
    from engine.rulebook.known import how_to_settle

    figures, words = ("us", "DDR bytes"), "reason and what to change"
    listing = Listing("node", "on", "type", "dtype", "shape", figures=figures, words=words)
    for node in nodes:
        on = node.on if node.subgraph is None else f"{node.on} {node.subgraph}"
        time = "" if node.time_us is None else f"{node.time_us:.1f}"
        traffic = "" if node.bytes is None else str(node.bytes)
        shape = "x".join(map(str, node.shape))
        rule = f"[{', '.join(node.rules)}]" if node.reason and node.rules else ""
        why = "; ".join(filter(None, (node.reason, node.hint if node.reason else "", node.unmeasured, rule)))
        style = "yellow" if node.on == Device.CPU else ""
        cells = (node.name, on, node.type, node.data_type, shape, time, traffic, why)
        listing.add_row(*cells, style=style)
    console = open_console()
    console.print(listing)
    found = result.performance
    console.print(
        f"{result.name} on {found.march}: {found.latency_us:.1f} us, {found.ddr_bytes} bytes of DDR traffic, "
        f"BPU subgraphs: {len(found.subgraphs)}, CPU nodes: {len(found.cpu_nodes)} (not in the latency)",
        highlight=False,
        markup=False,
    )
    if interpreted:
        console.print(
            "The fast simulator has no instruction for these nodes and computes them slowly:", highlight=False
        )
    for entry in interpreted:
        console.print(f"  {entry.node} ({entry.op_type}): {entry.reason}", highlight=False, markup=False)
    if any(node.reason and node.rules for node in nodes):
        console.print("In brackets: the rules that decided; ptqlab rules show ID", highlight=False, markup=False)
    known = known_of(nodes)
    console.print(f"Conversion known: {known.headline}", highlight=False, markup=False)
    for reason in known.reasons:
        console.print(f"  {reason}", highlight=False, markup=False)
    if known.doubts:
        console.print(how_to_settle(shlex.quote(str(model))), highlight=False, markup=False)
    for text in doubts:
        console.print(f"WARNING: {text}", highlight=False, markup=False)
    console.print(f"Thresholds: {thresholds}", highlight=False, markup=False)
