"""Models that bring thresholds: ``calibration_type: load``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate import CalibrationOptions, calibrate, calibration_tensors, collect, run_calibration
from engine.frontend.onnx import load
from engine.frontend.prepared import given_thresholds
from engine.ir import HORIZON_DOMAIN, calibration_nodes, read_calibration, save_model
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from tests.engine.calibrate.models import residual

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A calibrated model as a file that says nothing of where it comes from."""
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())
    calibrated.metadata_props.clear()
    for node in calibrated.graph:
        node.metadata_props.clear()
        if node.name == "c0_HzCalibration":
            node.attributes["switch"] = ir.AttrString("switch", "OFF")
    return save_model(calibrated, tmp_path / "prepared.onnx")


def thresholds(model: ir.Model) -> dict[str, list[float]]:
    return {str(node.name): read_calibration(node).thresholds.tolist() for node in calibration_nodes(model)}


def test_calibration_nodes_are_taken_out(prepared: Path) -> None:
    model = load(prepared)
    assert [node.op_type for node in model.graph] == [node.op_type for node in residual().graph]
    assert HORIZON_DOMAIN not in model.opset_imports
    assert given_thresholds(model).keys() >= {"x", "r0", "w0", "w1", "a"}
    assert "c0" not in given_thresholds(model), "its switch is OFF"


def test_load_takes_the_thresholds_of_the_file(prepared: Path) -> None:
    optimized = optimize(load(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    loaded = thresholds(run_calibration(optimized, placed, None, CalibrationOptions(calibration_type="load")))
    given = given_thresholds(load(prepared))
    for name in ("x", "r0", "w0", "w1", "a"):
        assert loaded[f"{name}_HzCalibration"] == given[name]
    assert loaded["c0_HzCalibration"] == [1.0]


def test_skip_does_not(prepared: Path) -> None:
    optimized = optimize(load(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    skipped = thresholds(run_calibration(optimized, placed, None, CalibrationOptions(calibration_type="skip")))
    assert skipped["r0_HzCalibration"] == [1.0]


@pytest.mark.parametrize("kind", ["skip", "load"])
def test_the_log_claims_nothing_that_needs_data(kind: str, prepared: Path, caplog: pytest.LogCaptureFixture) -> None:
    optimized = optimize(load(prepared), "bayes-e")
    placed = place(optimized, "bayes-e", PlacementOptions()).model
    options = CalibrationOptions(calibration_type=kind, per_channel=True, asymmetric=True, bias_correction=True)
    with caplog.at_level("INFO", "engine.calibrate"):
        run_calibration(optimized, placed, DATA, options)
    assert caplog.messages == ["Run calibration model with fixed thresholds method."]
