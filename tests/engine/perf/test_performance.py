"""Estimates: consistent sums, sensible orders, and the measured corpus within the stated errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.compile import CompileOptions, OptimizeLevel, compile_model
from engine.compile.compiler import memory_of
from engine.ir import load_model
from engine.march.latency import load_latency, marches
from engine.perf import Performance, estimate
from engine.perf.corpus import read_rows
from engine.perf.fit import cases_of, counted, errors_of
from tests.golden_cases import BUNDLED

RESIDUAL = BUNDLED / "conversions" / "res.quant.onnx"


def performance(level: OptimizeLevel = OptimizeLevel.O2, march: str = "bayes-e", model: Path = RESIDUAL) -> Performance:
    return estimate(compile_model(load_model(model), march, CompileOptions(optimize_level=level)))


def test_totals_are_sums_of_the_parts() -> None:
    result = performance()
    assert result.loaded_bytes == sum(layer.loaded_bytes for layer in result.layers)
    assert result.stored_bytes == sum(layer.stored_bytes for layer in result.layers)
    assert result.ddr_bytes == result.loaded_bytes + result.stored_bytes
    assert result.bpu_ops == sum(layer.ops for layer in result.layers) == 2 * (2 * 8 * 8 + 2 * 9 * 8 * 8) * 16 * 16
    assert result.fps == pytest.approx(1e6 / result.latency_us)
    assert [layer.name for layer in result.layers] == ["Conv_0", "Conv_1", "Conv_2", "Conv_5"]
    assert result.cpu_nodes == ()


def test_traffic_of_a_small_network_is_exact() -> None:
    """Input 16 x 16 x 8; weights in 16 x 8 blocks; 8 bytes per channel; output int32."""
    result = performance()
    assert result.loaded_bytes == 16 * 16 * 8 + 2 * 16 * 8 + 2 * 9 * 16 * 8 + 4 * 8 * 8
    assert result.stored_bytes == 16 * 16 * 8 * 4


def test_unfused_compilation_moves_more_and_takes_longer() -> None:
    fused, unfused = performance(), performance(OptimizeLevel.O0)
    assert unfused.ddr_bytes > fused.ddr_bytes
    assert unfused.latency_us > fused.latency_us


def test_cpu_nodes_split_subgraphs() -> None:
    result = performance(march="bernoulli2", model=BUNDLED / "conversions" / "b2_gemm.quant.onnx")
    assert result.cpu_nodes
    assert all(kind == "Reshape" for _, kind in result.cpu_nodes)


@pytest.mark.reference
@pytest.mark.parametrize("march", marches())
def test_measured_compilations_are_predicted(march: str, reference_dir: Path) -> None:
    """The bar of this release at O2, rows above 30 us: latency error 10 % (median), 30 % (p90); DDR traffic 2 %."""
    rows = [row for row in read_rows(reference_dir / "latency" / "latency.jsonl") if row.march == march]
    latency = load_latency(march)
    cases = [case for case in counted(cases_of(rows, latency)) if case[0].optimize_level == "O2"]
    errors = errors_of(cases, latency)
    assert len(cases) >= 150
    assert np.median(errors.latency) <= 0.10
    assert np.quantile(errors.latency, 0.9) <= 0.30
    assert np.median(errors.ddr) <= 0.02


@pytest.mark.parametrize("march", marches())
def test_memory_grows_with_the_level(march: str) -> None:
    latency = load_latency(march)
    levels = [memory_of(latency, level) for level in OptimizeLevel]
    assert [m.map_bytes for m in levels] == sorted(m.map_bytes for m in levels)
    assert [m.group_bytes for m in levels] == sorted(m.group_bytes for m in levels)
