"""Pages and files on how fast a container will run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli.vendor import hb_perf
from tests.browser import Browser, needs_browser
from tests.engine.cli.vendor.board import run


def test_pages_json_and_pictures(folder: Path) -> None:
    run(hb_perf.app, "feature.bin")
    result = folder / "hb_perf_result" / "feature"
    assert {path.name for path in result.iterdir()} == {
        "feature",
        "feature.html",
        "feature.png",
        "feature_subgraph_0.html",
        "feature_subgraph_0.json",
    }
    summary = json.loads((result / "feature_subgraph_0.json").read_text())["summary"]
    assert summary["DDR bytes per frame"] == summary["loaded bytes per frame"] + summary["stored bytes per frame"]
    assert summary["latency (us)"] == pytest.approx(1e6 / summary["FPS"])
    assert len(summary["layer details"]) == summary["layers"]
    assert sum(summary["interval loading bandwidth (bytes)"]) == pytest.approx(
        summary["loaded bytes per frame"], rel=0.01
    )
    page = (result / "feature.html").read_text()
    for text in (
        "Model Performance Summary",
        "± ",
        "Details",
        "On the CPU",
        "BIN Model Structure",
        "feature_subgraph_0.html",
    ):
        assert text in page
    assert "Layer Details" in (result / "feature_subgraph_0.html").read_text()
    assert (result / "feature.png").read_bytes().startswith(b"\x89PNG")
    assert (result / "feature").read_text().startswith("digraph")


@needs_browser
def test_a_browser_draws_the_figures_at_both_widths(folder: Path) -> None:
    run(hb_perf.app, "feature.bin")
    result = folder / "hb_perf_result" / "feature"
    with Browser() as browser:
        for width in (1400, 390):
            browser.open((result / "feature.html").as_uri(), width)
            assert browser.run("document.querySelectorAll('#structure svg g.node').length") >= 2
            assert browser.overflow() == []
            browser.open((result / "feature_subgraph_0.html").as_uri(), width, dark=True)
            drawn = browser.run("[...document.querySelectorAll('.js-plotly-plot')].map(each => each.id)")
            assert drawn == ["utilisation", "timeline", "roofline"]
            assert browser.overflow() == []
        assert browser.problems == []


def test_without_debug_it_says_so(folder: Path) -> None:
    assert "compiler_parameters.debug:True" in run(hb_perf.app, "image.bin")
    summary = json.loads((folder / "hb_perf_result/image/image_subgraph_0.json").read_text())["summary"]
    assert "layer details" not in summary


def test_wrong_files(folder: Path) -> None:
    (folder / "broken.bin").write_bytes(b"no model")
    refused = run(hb_perf.app, "broken.bin", code=255)
    assert "not a ptqlab .bin file" in refused
    assert "give the .bin that ptqlab's hb_mapper makertbin wrote" in refused
    assert not (folder / "hb_perf_result").exists()
