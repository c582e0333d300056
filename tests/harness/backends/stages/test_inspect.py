"""What a compiled model costs, and its table of nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

from engine.convert.items import CALIBRATED, COMPARISON, COMPILED, OPTIMIZED, ORIGINAL
from harness.backends.items import BOARD, FOOTPRINT, NODES
from harness.backends.stages import inspect
from harness.backends.stages.inspect import MEASURE_FOOTPRINT, TABULATE
from harness.trials.figures import Footprint, TrialNode
from tests.harness.backends.stages import work


def test_costs_are_in_milliseconds_and_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    performance = SimpleNamespace(latency_us=1500.0, cpu_us=250.0, ddr_bytes=2_500_000, subgraphs=[1, 2])
    performance.cpu_measured_us = 100.0
    monkeypatch.setattr(inspect, "estimate", lambda compiled, board: {"measured": performance}[board])
    compiled = SimpleNamespace(cpu_nodes=["a", "b", "c"])
    found = work.given_by(MEASURE_FOOTPRINT, {COMPILED: compiled, BOARD: "measured"})[FOOTPRINT]
    assert found == Footprint(latency_ms=1.5, cpu_ms=0.25, ddr_mb=2.5, cpu_nodes=3, subgraphs=2, cpu_measured_ms=0.1)


def test_rows_are_those_of_the_conversion_with_the_reasons_of_the_calibrated_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = [ir.node("Relu", [], name=name) for name in ("on_bpu", "on_cpu")]
    columns: dict[str, Any] = {"type": "Relu", "data_type": "int8", "cosine": 0.5}
    rows = [
        SimpleNamespace(node="on_bpu", on="BPU", subgraph=1, threshold=2.5, reads=(), **columns),
        SimpleNamespace(
            node="made_by_quantisation", on="CPU", subgraph=None, threshold=None, reads=("on_bpu",), **columns
        ),
        SimpleNamespace(
            node="on_cpu",
            on="CPU",
            subgraph=None,
            threshold=None,
            reads=("on_bpu", "made_by_quantisation"),
            **columns,
        ),
    ]

    compiled = SimpleNamespace(march="bayes-e")

    def node_rows(given: object, calibrated: object, cosines: object) -> list[SimpleNamespace]:
        assert (given, cosines) == (compiled, ("optimized", "comparison"))
        return rows

    def mark_unmeasured(rows: list[SimpleNamespace], original: object, march: object) -> list[SimpleNamespace]:
        assert (original, march) == ("original", "bayes-e")
        return [SimpleNamespace(**vars(row), doubt=f"unmeasured {row.node}") for row in rows]

    monkeypatch.setattr(inspect, "node_rows", node_rows)
    monkeypatch.setattr(inspect, "mark_unmeasured", mark_unmeasured)
    monkeypatch.setattr(inspect, "cosines", lambda optimized, comparison: (optimized, comparison))
    monkeypatch.setattr(inspect, "sentence_of", lambda node: "why" if node.name == "on_cpu" else "")
    layer = SimpleNamespace(name="on_bpu", latency_us=1.23456, loaded_bytes=100, stored_bytes=20)
    monkeypatch.setattr(inspect, "estimate", lambda compiled: SimpleNamespace(layers=[layer]))
    given: dict[Any, Any] = {
        COMPILED: compiled,
        ORIGINAL: "original",
        CALIBRATED: SimpleNamespace(graph=graph),
        OPTIMIZED: "optimized",
        COMPARISON: "comparison",
    }
    assert work.given_by(TABULATE, given)[NODES] == (
        TrialNode(
            node="on_bpu",
            on="BPU",
            subgraph=1,
            threshold=2.5,
            time_us=1.235,
            ddr_bytes=120,
            doubt="unmeasured on_bpu",
            **columns,
        ),
        TrialNode(node="made_by_quantisation", on="CPU", reads="0", doubt="unmeasured made_by_quantisation", **columns),
        TrialNode(node="on_cpu", on="CPU", reason="why", reads="0 1", doubt="unmeasured on_cpu", **columns),
    )
