"""``ptqlab check``: where each operator of a model will run, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH
from engine.cli.console import say
from engine.cli.lab.options import InputShapes, NodeInfoText, read_march, read_node_info
from engine.cli.named import FixedInputs, read_fixed, read_shapes
from engine.terms import Device

if TYPE_CHECKING:
    from engine.convert import ConversionResult


def check(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Float model.")],
    march: Annotated[str, typer.Option(help="BPU architecture.")] = DEFAULT_MARCH.value,
    input_shape: InputShapes = None,
    fix: FixedInputs = None,
    node_info: NodeInfoText = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print nodes and operators of the quantised graph.")] = False,
) -> None:
    """Show where each operator of a float model will run and why; needs no data, writes nothing."""
    import json

    from engine.convert import Draft
    from engine.convert import check as convert

    requests = read_node_info(node_info)
    draft = Draft(read_march(march), read_shapes(input_shape), node_info=requests, fixed=read_fixed(fix))
    result = convert(model, draft)
    if as_json:
        say(json.dumps(as_dict(result), indent=2))
    else:
        _show(result)


def as_dict(result: ConversionResult) -> dict[str, object]:
    """``{nodes: [{node, on, subgraph, type, dtype, reason, unmeasured, quirks}], quantized_graph: [types]}``."""
    from engine.ops.core.reasons import sentence

    rows = [
        {
            "node": row.node,
            "on": row.on,
            "subgraph": row.subgraph,
            "type": row.type,
            "dtype": row.data_type,
            "reason": sentence(row.reason),
            "unmeasured": row.unmeasured,
            "quirks": row.quirks,
        }
        for row in result.nodes
    ]
    return {"nodes": rows, "quantized_graph": [node.op_type for node in result.models["quantized"].graph]}


def _show(result: ConversionResult) -> None:
    from engine.cli.console import open_console
    from engine.cli.listing import Listing
    from engine.ops.core.reasons import sentence
    from engine.place.hints import hint_for

    listing = Listing("node", "on", "sub", "type", "dtype", words="reason")
    for row in result.nodes:
        subgraph = "" if row.subgraph is None else str(row.subgraph)
        style = "yellow" if row.on == Device.CPU else ""
        remarks = "; ".join(filter(None, (sentence(row.reason), row.remarks)))
        cells = (row.node, row.on, subgraph, row.type, row.data_type, remarks)
        listing.add_row(*cells, style=style)
    console = open_console()
    console.print(listing)
    for row in result.nodes:
        if row.reason is not None:
            console.print(f"{row.node} ({row.type}): {hint_for(row.type, row.reason)}", highlight=False, markup=False)
    found = result.performance
    console.print(
        f"{len(result.nodes)} nodes, {len(found.subgraphs)} BPU subgraphs, {len(found.cpu_nodes)} CPU nodes; "
        f"{found.latency_us:.1f} us and {found.ddr_bytes} bytes of DDR traffic per frame on {found.march}",
        highlight=False,
    )
