"""What is measured of a network of the suite: as of any pair, and beside int8 peers and the machine's peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.speed.peers import int8_peers, without_warnings
from benchmarks.speed.roofline import Roofline, roofline
from benchmarks.speed.suite import SuiteNetwork
from engine.convert import Draft, check
from engine.ir import save_model
from engine.simulate.bench import BenchOptions, bench
from engine.simulate.fast import available_cpus
from engine.simulate.profile import profile
from engine.terms import InputType
from harness.bench import measure
from harness.bench.measure import BenchReport, MemoryRow, Pair, memory_rows


@dataclass(frozen=True)
class Extent:
    """What is measured of a network besides its speed.

    Attributes:
        peers: int8 ONNX Runtime and OpenVINO as well.
        memory: peak memory at batch 1.
        roofline: operations and bytes beside the machine's peaks.
    """

    peers: bool = True
    memory: bool = True
    roofline: bool = False


@dataclass(frozen=True)
class NetworkReport:
    """Figures of one network.

    Attributes:
        figures: as of any pair of models.
        roofline: beside the machine's peaks, where that was wanted.
        left_out: which peers do not run the network, and why.
    """

    figures: BenchReport
    roofline: Roofline | None = None
    left_out: tuple[str, ...] = ()


def bench_network(network: SuiteNetwork, march: str, options: BenchOptions, extent: Extent) -> NetworkReport:
    """A network of the suite, converted with fixed thresholds.

    Raises:
        PtqlabError: the march cannot run the network, or an option is out of range.
    """
    options = replace(options, reference=False)
    with TemporaryDirectory(prefix="ptqlab-bench-") as folder:
        path = network.file(Path(folder))
        with without_warnings():
            result = check(path, Draft(march, input_type=InputType.RGB))
        quantized = result.models["quantized"]
        threads = options.threads or available_cpus()
        peers, reasons = int8_peers(path, Path(folder), threads, options.batches) if extent.peers else ([], [])
        rows = bench(quantized, path, options, peers)
        memory: tuple[MemoryRow, ...] = ()
        if extent.memory:
            pair = Pair(network.name, Path(folder) / "quantized.onnx", path)
            save_model(quantized, pair.quantized)
            memory = memory_rows(pair, options, (1,))
    costs = profile(quantized)
    line = roofline(costs, result.performance.bpu_ops) if extent.roofline else None
    return NetworkReport(BenchReport(network.name, rows, memory, profile=costs), line, tuple(reasons))


def as_json(reports: Sequence[NetworkReport]) -> dict[str, Any]:
    """As :func:`harness.bench.measure.as_json`, and a list ``roofline``, every row with its model."""
    lines = [{"model": r.figures.model, **r.roofline.as_dict()} for r in reports if r.roofline]
    return {**measure.as_json([report.figures for report in reports]), "roofline": lines}
