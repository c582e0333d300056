"""``ptqlab bisect``: samples, labels, what is shown. What it finds is tested beside the bisection."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.cli.lab.bisect import _first, _material, _samples, _show, _task
from engine.debug.bisection.bisect import Bisection, Material, PairReport
from engine.debug.bisection.stages import StageName
from engine.errors import ConfigError
from tests.engine.calibrate.models import identity
from tests.engine.conformance.models import write_network


def pair(after: str, finding: str | None, **figures: float) -> PairReport:
    known = {"max_abs": 0.5, "sqnr": 30.0, "cosine": 0.99, "lsb": None, "bound": "sqnr >= 40"}
    known |= {"metric_before": None, "metric": None, "tensor": "t"}
    return PairReport(
        **{
            "before": "optimized",
            "after": after,
            "node": None if finding is None else "n",
            "finding": finding,
            **known,
            **figures,
        }
    )


def test_samples_are_counted_in_rows_of_the_model() -> None:
    model, feed = identity((2, 3)), {"x": np.arange(30).reshape(10, 3)}
    assert _samples(feed, model) == 5
    assert _first(feed, model, 2)["x"].shape == (4, 3)
    assert _first(feed, model, 9)["x"].shape == (10, 3)


def material(model: ir.Model, rows: int = 3) -> Material:
    return Material({StageName.ORIGINAL: model}, {"x": np.zeros((rows, 3), np.float32)}, None, None)


def test_labels_beside_the_samples_are_taken(tmp_path: Path) -> None:
    given = material(identity((1, 3)))
    assert _task(None, "top1", None, given) is None
    with pytest.raises(ConfigError, match=r"--metric mine:score: needs --labels, or labels.csv in the folder"):
        _task(None, "mine:score", tmp_path, given)
    (tmp_path / "x").mkdir()
    for index in range(3):
        np.save(tmp_path / "x" / f"{index}.npy", np.zeros((1, 3), np.float32))
    assert _task(None, "top1", tmp_path, given) is None
    (tmp_path / "labels.csv").write_text("0,2\n1,1\n2,0\n")
    found = _task(None, "top1", tmp_path, given)
    assert found is not None
    assert np.asarray(found.labels).tolist() == [2, 1, 0]


def test_samples_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_network(tmp_path)
    text = (
        path.read_text().replace("cal_data_dir: ./data", "").replace("calibration_type: max", "calibration_type: skip")
    )
    path.write_text(text.replace("cal_data_type: float32", ""))
    with pytest.raises(ConfigError, match="--data: give samples; the configuration has no cal_data_dir either"):
        _material(tmp_path / "net.onnx", path, None, None, None, None, None, 1)


def test_the_stages_of_a_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_network(tmp_path)
    found = _material(tmp_path / "net.onnx", path, None, None, None, None, None, 2)
    assert list(found.stages) == ["original", "optimized", "calibrated", "quantized", "bin"]
    assert (found.feed["image"].shape, found.source_feed, found.dumps) == ((2, 3, 16, 16), None, None)


def test_the_calibration_folder_of_the_configuration_is_read_as_the_conversion_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_network(tmp_path)
    usual = _material(tmp_path / "net.onnx", path, None, None, None, None, None, 2)
    named = _material(tmp_path / "net.onnx", path, tmp_path / "data", None, None, None, None, 2)
    np.testing.assert_array_equal(named.feed["image"], usual.feed["image"])


def test_the_first_bad_pair_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Bisection((pair("calibrated", None), pair("quantized", "too far", lsb=3))), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("  keeps its bound")
    assert lines[2].endswith("  n: too far")
    assert lines[-1] == "first bad stage: quantized, node n: too far (bound: sqnr >= 40)"
    _show(Bisection((pair("calibrated", None),)), as_json=False)
    assert capsys.readouterr().out.endswith("every stage is within its bound\n")


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Bisection((pair("calibrated", None), pair("quantized", "too far"))), as_json=True)
    content = json.loads(capsys.readouterr().out)
    assert content["first_bad"] == {"stage": "quantized", "node": "n", "finding": "too far"}
    assert [row["bad"] for row in content["pairs"]] == [False, True]
