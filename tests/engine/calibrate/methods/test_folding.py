"""Factors of channels in weights."""

from __future__ import annotations

import numpy as np

from engine.calibrate import CalibrationOptions
from engine.calibrate.data.sources import ArrayData
from engine.calibrate.methods.folding import fold_channel_scales
from engine.calibrate.run import run_calibration
from engine.floats.float_model import FloatSession
from engine.ir import calibration_nodes, constant_of, read_calibration
from engine.place import PlacementOptions, place
from tests.engine.calibrate.models import samples, shortcut


def test_weights_take_the_factors_over() -> None:
    model, x = shortcut(), 4 * samples(3)
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = run_calibration(model, placed, ArrayData({"x": x}), CalibrationOptions(per_channel=True))
    folded = calibrated.clone()
    fold_channel_scales(folded)
    before, after = ({str(node.name): node for node in calibration_nodes(each)} for each in (calibrated, folded))
    scales = read_calibration(before["r0_HzCalibration"]).scales
    factors = np.asarray(after["r0_HzCalibration"].attributes["channel_scales"].as_floats(), np.float32)
    np.testing.assert_array_equal(factors, scales.max() / scales)
    weights = [constant_of(each["w1_HzCalibration"].inputs[0]) for each in (before, after)]
    assert weights[0] is not None
    np.testing.assert_allclose(weights[1], weights[0] / factors.reshape(1, -1, 1, 1), rtol=1e-6)
    largest = read_calibration(after["w1_HzCalibration"]).thresholds
    np.testing.assert_array_equal(largest, np.abs(np.asarray(weights[1])).max(axis=(1, 2, 3)))


def test_one_threshold_leaves_weights_as_they_are() -> None:
    model = shortcut()
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = run_calibration(model, placed, ArrayData({"x": samples(3)}), CalibrationOptions())
    folded = calibrated.clone()
    fold_channel_scales(folded)
    feed = {"x": samples(1)}
    np.testing.assert_array_equal(FloatSession(folded).run(feed)["y"], FloatSession(calibrated).run(feed)["y"])
