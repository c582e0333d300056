"""``python -m benchmarks.speed NAME...``: the simulator beside float32 and int8 peers on networks of the suite."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from benchmarks.speed.measure import Extent, NetworkReport, as_json, bench_network
from benchmarks.speed.peers import OPENVINO, has_openvino
from benchmarks.speed.suite import suite, suite_names
from benchmarks.speed.tables import roofline_table
from engine.chips import DEFAULT_MARCH
from engine.cli.console import say
from engine.errors import ConfigError, ModelError, UnsupportedError
from engine.simulate.bench import BenchOptions
from harness.cli.bench import batch_sizes
from harness.cli.bench_tables import show
from harness.extras import how_to_install
from harness.files.strict_yaml import unknown


def main(
    names: Annotated[
        list[str],
        typer.Argument(
            help="zoo (all), structures (of real size with seeded weights), bundled, reference, or one structure.",
        ),
    ],
    march: Annotated[str, typer.Option(help="BPU architecture.")] = DEFAULT_MARCH.value,
    batches: Annotated[str, typer.Option("--batch", help="Batch sizes, joined by commas.")] = "1,8",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; the median is reported.")] = 5,
    seconds: Annotated[float, typer.Option(min=0, help="Least duration of a turn.")] = 0.3,
    peers: Annotated[bool, typer.Option(help="Int8 ONNX Runtime, and OpenVINO where installed.")] = True,
    memory: Annotated[bool, typer.Option(help="Peak memory of processes of their own.")] = True,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Operations and bytes beside this machine's peak.")
    ] = False,
    profiled: Annotated[bool, typer.Option("--profile", help="Also time, bytes and calls per operator.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the simulator on networks of the suite, in turns with its peers in one process."""
    for name in names:
        if name not in suite_names():
            raise unknown("network", name, suite_names())
    reports = measured(
        names, march, BenchOptions(batch_sizes(batches), threads, rounds, seconds), Extent(peers, memory, roofline)
    )
    for report in reports:
        for reason in report.left_out:
            say(f"{report.figures.model}: left out: {reason}", err=True)
    if json_output:
        say(json.dumps(as_json(reports), indent=2))
    else:
        show([report.figures for report in reports], profiled, [roofline_table(reports)])


def measured(names: list[str], march: str, options: BenchOptions, extent: Extent) -> list[NetworkReport]:
    """The networks of ``names``, those that the march cannot run left out and said."""
    if extent.peers and not has_openvino():
        say(f"left out: {OPENVINO}: {how_to_install('bench-peers')}", err=True)
    reports = []
    for network in suite(names):
        try:
            reports.append(bench_network(network, march, options, extent))
        except (UnsupportedError, ModelError) as error:
            say(f"left out: {network.name}: {error}", err=True)
    return reports


if __name__ == "__main__":
    try:
        typer.run(main)
    except ConfigError as error:
        raise SystemExit(str(error)) from error
