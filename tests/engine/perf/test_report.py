"""The pages of ``hb_perf``: their figures, and which files there are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.perf.performance import LayerPerformance, SubgraphPerformance, estimate
from engine.perf.report import SubgraphView, structure_png, subgraph_summary, write_report
from engine.perf.structure import structure_of
from tests.engine.compile.compiled import residual

LAYER = LayerPerformance(
    "conv", "HzSQuantizedConv", 100, (1, 2, 2, 4), (1, 2, 8, 16), 10.0, 4.0, 2.0, 600, 400, 1.0, 20.0
)


def view() -> SubgraphView:
    figures = SubgraphPerformance("s", 20.0, 600, 400, (LAYER,), 2)
    return SubgraphView(residual().schedules[0], figures)


def test_figures_per_run_second_and_frame() -> None:
    summary = subgraph_summary(residual(), view())
    expected = {
        "BPU OPs per run": 100,
        "BPU OPs per second": 100 * 50_000,
        "DDR bytes per run": 1000,
        "DDR bytes per second": 1000 * 50_000,
        "DDR megabytes per run": 1000 / 2**20,
        "FPS": 50_000,
        "latency (ms)": 0.02,
        "latency (us) by segments": [20.0],
        "loaded bytes per frame": 600,
        "stored bytes per frame": 400,
        "function calls": 2,
        "layers": 1,
        "BPU march": "bayes-e",
        "frame per run": 1,
    }
    assert {name: summary[name] for name in expected} == expected
    assert summary["computing unit utilization"] == pytest.approx(
        sum(entry.compute.length for entry in view().times) / 20
    )
    assert "layer details" not in summary


def test_layers_are_told_where_it_was_compiled_with_debug() -> None:
    (details,) = subgraph_summary(residual(debug=True), view())["layer details"]
    assert details["computing cost (us)"] == 10.0
    assert details["load/store cost (us)"] == 6.0
    assert (details["original output shape"], details["aligned output shape"]) == ([1, 2, 2, 4], [1, 2, 8, 16])
    assert (details["overhead (us)"], details["part of the latency (us)"]) == (1.0, 20.0)


def test_a_page_and_a_summary_per_subgraph_and_a_page_of_the_model(tmp_path: Path) -> None:
    compiled = residual(debug=True)
    page = write_report(compiled, tmp_path)
    assert page == tmp_path / "net" / "net.html"
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "net",
        "net.html",
        "net.png",
        "net_subgraph_0.html",
        "net_subgraph_0.json",
    ]
    summary = json.loads((page.parent / "net_subgraph_0.json").read_text())["summary"]
    assert summary["latency (us)"] == estimate(compiled).latency_us
    assert len(summary["layer details"]) == summary["layers"]
    text = (page.parent / "net_subgraph_0.html").read_text()
    assert all(layer.name in text for layer in compiled.schedules[0].layers)
    assert (page.parent / "net").read_text() == structure_of(compiled).dot()


def test_the_picture_is_a_png() -> None:
    assert structure_png(structure_of(residual())).startswith(b"\x89PNG")


def test_a_subgraph_without_layers_has_its_pages(tmp_path: Path) -> None:
    compiled = residual()
    empty = compiled.schedules[0].model_copy(update={"layers": (), "groups": ()})
    page = write_report(replace(compiled, schedules=(empty, *compiled.schedules[1:])), tmp_path)
    assert page.is_file()
    assert len(list(page.parent.glob("*.html"))) == 1 + len(compiled.schedules)
