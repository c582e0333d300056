"""``ptqlab predict``: latency and DDR traffic of a model, without calibration data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH, load_chip
from engine.cli.console import say
from engine.cli.lab.options import InputShapes, NodeInfoText, read_marches, read_node_info
from engine.cli.named import FixedInputs, read_fixed, read_shapes
from engine.errors import ConfigError
from engine.terms import DEFAULT_OPTIMIZE_LEVEL, CompileMode, InputType, OptimizeLevel

if TYPE_CHECKING:
    from rich.table import Table

    from engine.convert import ConversionResult
    from engine.perf import NodeCost, Performance

DEAREST_NODES = 10
DEFAULT_BOARD = "a board"
ROOM_FOR_ALL = 110
"""Columns of a terminal from which the traffic is shown in both directions too."""
"""Columns of the table where it goes to no terminal."""


def predict(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Float model.")],
    march: Annotated[str, typer.Option(help="BPU architectures, joined by commas.")] = DEFAULT_MARCH.value,
    optimize_level: Annotated[OptimizeLevel, typer.Option(help="As in YAML.")] = DEFAULT_OPTIMIZE_LEVEL,
    compile_mode: Annotated[CompileMode, typer.Option(help="As in YAML.")] = CompileMode.LATENCY,
    core_num: Annotated[int, typer.Option(min=1, max=2, help="Cores that share one frame.")] = 1,
    input_type: Annotated[InputType, typer.Option(help="Run-time format of image inputs.")] = InputType.FEATUREMAP,
    input_shape: InputShapes = None,
    fix: FixedInputs = None,
    node_info: NodeInfoText = None,
    nodes: Annotated[
        int, typer.Option(min=0, help="Number of most expensive nodes to show per march.")
    ] = DEAREST_NODES,
    profile: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="profiler.log of this network on a board (hrt_model_exec perf --profile_path), or a YAML table of "
            "milliseconds by operator type: kept, and used for CPU nodes here and in sweeps.",
        ),
    ] = None,
    board: Annotated[
        str, typer.Option(metavar="NAME", help="With --profile: what the board is called.")
    ] = DEFAULT_BOARD,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: figures by march, with all nodes.")] = False,
) -> None:
    """Predict latency and DDR traffic; needs no calibration data."""
    import json

    from engine.board import board_file, keep_times, read_measured, times_of
    from engine.compile import CompileOptions
    from engine.convert import Draft, check
    from engine.perf import estimate
    from engine.perf.cpu import cpu_costs

    options = CompileOptions(optimize_level=optimize_level, compile_mode=compile_mode, core_num=core_num)
    shapes, requests = read_shapes(input_shape), read_node_info(node_info)
    fixed = read_fixed(fix)
    drafts = {
        name: Draft(name, shapes, True, input_type, requests, options, fixed=fixed) for name in read_marches(march)
    }
    if profile is not None and len(drafts) > 1:
        raise ConfigError(f"--profile {profile}: was measured on one board; give --march for its chip alone")
    if profile is None and board != DEFAULT_BOARD:
        raise ConfigError("--board: belongs to --profile")
    results = {name: check(model, draft) for name, draft in drafts.items()}
    on_board = None
    if profile is not None:
        ((name, result),) = results.items()
        measured = read_measured(profile)
        costs = cpu_costs(result.compiled)
        times = keep_times(times_of(board, name, measured, costs))
        results[name] = replace(result, performance=estimate(result.compiled, times))
        on_board = measured.bpu_ms
    if as_json:
        say(json.dumps({name: as_dict(name, result) for name, result in results.items()}, indent=2))
        return
    _show(results, nodes)
    if profile is not None:
        ((name, result),) = results.items()
        bpu = "" if on_board is None else f"; BPU subgraphs took {on_board:.3f} ms there"
        say(f"{name}: {profile.name} is kept in {board_file(name)}{bpu}")


def as_dict(march: str, result: ConversionResult) -> dict[str, object]:
    """``latency_us``, ``ddr_bytes``, ``loaded_bytes``, ``stored_bytes``, ``subgraphs``, ``cpu_nodes`` of a run.

    ``subgraphs_us_ddr`` has latency and traffic of each BPU subgraph; ``nodes`` what each node of the float network
    costs there, the costliest first: together they are the latency and the traffic.

    A run computes ``frames`` samples, the batch of the model's inputs; ``fps`` counts them. ``cpu_us`` is what
    the CPU does, quantisation and layout changes too; it is not in ``latency_us``. ``cpu_measured_us`` of it were
    measured on the board that ``board`` names, with files and dates; the rest are estimates from nothing measured.
    ``cpu_us_by_node`` has name, type, microseconds and whether they were measured of each.
    ``uncertainty`` holds the relative errors of latency and DDR bytes that nine of ten networks stay in where the
    model was fitted without their whole family;
    ``extrapolated_from`` names the march whose figures these are, where ``march`` has none of its own.
    """
    found, chip = result.performance, load_chip(march)
    return {
        "latency_us": found.latency_us,
        "ddr_bytes": found.ddr_bytes,
        "loaded_bytes": found.loaded_bytes,
        "stored_bytes": found.stored_bytes,
        "fps": found.fps,
        "frames": found.frames,
        "uncertainty": found.uncertainty.model_dump(),
        "subgraphs": len(found.subgraphs),
        "subgraphs_us_ddr": [
            {"name": part.name, "latency": part.latency_us, "ddr": part.loaded_bytes + part.stored_bytes}
            for part in found.subgraphs
        ],
        "nodes": [
            {
                "node": cost.node,
                "type": cost.op_type,
                "subgraph": cost.subgraph,
                "latency_us": cost.latency_us,
                "loaded_bytes": cost.loaded_bytes,
                "stored_bytes": cost.stored_bytes,
                "layers": list(cost.layers),
            }
            for cost in _costs(result)
        ],
        "cpu_nodes": [list(node) for node in found.cpu_nodes],
        "cpu_us": found.cpu_us,
        "cpu_measured_us": found.cpu_measured_us,
        "board": found.board or None,
        "cpu_us_by_node": [
            {"node": cost.name, "type": cost.op_type, "us": cost.us, "measured": cost.measured_us is not None}
            for cost in found.cpu_costs
        ],
        "extrapolated_from": None if chip.measured else chip.figures,
        "not_honoured": [f"{refusal.node}: {refusal.request}: {refusal.reason}" for refusal in result.refusals],
    }


def _costs(result: ConversionResult) -> tuple[NodeCost, ...]:
    from engine.perf import node_costs

    models = result.models
    return node_costs(result.performance, result.compiled.schedules, models["original_float"], models["calibrated"])


def _show(results: dict[str, ConversionResult], nodes: int) -> None:
    from engine.cli.console import open_console, plain_table

    console = open_console()
    split = ("loaded", "stored") if console.width >= ROOM_FOR_ALL else ()
    table = plain_table("march", figures=("latency us", "FPS", "DDR bytes", *split, "sub", "CPU nodes", "CPU us"))
    for name, result in results.items():
        found = result.performance
        accuracy = found.uncertainty
        latency = f"{found.latency_us:.1f} ±{100 * accuracy.latency:.0f}%"
        parts = (str(found.loaded_bytes), str(found.stored_bytes)) if split else ()
        traffic = (f"{found.ddr_bytes} ±{100 * accuracy.ddr:.0f}%", *parts)
        counts = (str(len(found.subgraphs)), str(len(found.cpu_nodes)), _cpu_text(found))
        table.add_row(name, latency, f"{found.fps:.1f}", *traffic, *counts)
    console.print(table)
    for name, result in results.items():
        if statement := result.performance.cpu_statement:
            console.print(f"{name}: {statement}", highlight=False, markup=False, soft_wrap=True)
    for name, result in results.items():
        if nodes:
            console.print(_costliest(name, result, nodes))
    for name, result in results.items():
        for node, kind in result.performance.cpu_nodes:
            console.print(
                f"{name}: {node} ({kind}) runs on the CPU and is not in the latency",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        for refusal in result.refusals:
            console.print(
                f"{name}: {refusal.node}: {refusal.request} not honoured: {refusal.reason}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )


def _cpu_text(found: Performance) -> str:
    """Microseconds on the CPU, marked where they are not all measured."""
    return f"{'' if found.cpu_measured_us == found.cpu_us else '~'}{found.cpu_us:.0f}"


def _costliest(march: str, result: ConversionResult, count: int) -> Table:
    """The nodes that take most of the latency, and how many take the rest."""
    from engine.cli.console import plain_table

    costs, total = _costs(result), result.performance.latency_us
    figures = ("sub", "us", "share", "DDR bytes", "layers")
    table = plain_table(f"{march}: costliest nodes", "type", figures=figures)
    for cost in costs[:count]:
        share = f"{100 * cost.latency_us / total:.1f}%"
        figures = (str(cost.subgraph), f"{cost.latency_us:.1f}", share, str(cost.ddr_bytes), str(len(cost.layers)))
        table.add_row(cost.node, cost.op_type, *figures)
    rest = costs[count:]
    if rest:
        left = sum(cost.latency_us for cost in rest)
        layers = sum(len(cost.layers) for cost in rest)
        traffic = sum(cost.ddr_bytes for cost in rest)
        table.add_row(
            f"{len(rest)} others", "", "", f"{left:.1f}", f"{100 * left / total:.1f}%", str(traffic), str(layers)
        )
    return table
