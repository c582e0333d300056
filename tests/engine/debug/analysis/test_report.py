"""The page: who is to be set, where a ranked node is shown, settings to paste."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.debug.analysis.accumulation import Curve, Curves
from engine.debug.analysis.distribution import channels, distributions
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel
from engine.debug.analysis.report import (
    Ranking,
    Report,
    _detail,
    _in_lines,
    _targets,
    node_info,
    owners_of,
    write_report,
)
from engine.page_links import PageKind, identity
from tests.engine.calibrate.models import DATA, calibrated_residual

MODEL = DebugModel(calibrated_residual())
SHOWN = ["r0_HzCalibration", "conv1"]


@pytest.fixture(scope="module")
def report() -> Report:
    scores = {name: {DistanceMeasure.COSINE: value} for name, value in (("conv1", 0.5), ("conv0", 0.75))}
    return Report(
        title="net <one>",
        identity=identity(PageKind.ACCURACY, MODEL.model),
        samples=10,
        rankings=(Ranking("node", (DistanceMeasure.COSINE,), scores),),
        curves={"Accumulated error": Curves(("conv0",), DistanceMeasure.COSINE, (Curve("all", (1.0,)),))},
        distributions=tuple(distributions(MODEL, DATA, SHOWN)),
        channels=tuple(channels(MODEL, DATA, SHOWN[:1])),
        owners=owners_of(MODEL, [*SHOWN, "conv0"]),
    )


def test_a_calibration_node_belongs_to_those_that_read_it() -> None:
    assert owners_of(MODEL, ["conv1", "r0_HzCalibration", "w0_HzCalibration"]) == {
        "conv1": ("conv1",),
        "r0_HzCalibration": ("conv1",),
        "w0_HzCalibration": ("conv0",),
    }


def test_settings_are_16_bits_on_the_bpu() -> None:
    info = node_info(["a", "b"])
    assert info["a"] == {"ON": "BPU", "InputType": "int16", "OutputType": "int16"}
    text = _in_lines(info)
    assert json.loads(text) == info
    assert [line.count("int16") for line in text.splitlines()] == [0, 2, 2]


def test_a_ranked_node_is_shown_by_its_own_pictures_or_what_it_reads(report: Report) -> None:
    assert _targets(report) == {"conv1": "conv1", "r0_HzCalibration": "r0_HzCalibration"}
    assert "conv0" not in _targets(report)


def test_places_of_a_node_and_of_its_readers(report: Report) -> None:
    found = _detail(report, "r0_HzCalibration")
    assert found.places == (("node", "conv1", 1, {DistanceMeasure.COSINE: 0.5}),)
    assert (found.owners, json.loads(found.node_info)) == (("conv1",), node_info(["conv1"]))


def test_the_page_and_its_pictures(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.debug.analysis.plots.to_png", lambda figure: b"png")
    page = write_report(report, tmp_path)
    text = page.read_text("utf-8")
    assert page == tmp_path / "accuracy_debug.html"
    assert "net &lt;one&gt;" in text
    assert len(list(tmp_path.glob("*.png"))) == 1 + 1 + 2 + 1
    assert not re.search(r'src="https?:', text)
