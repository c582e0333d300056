"""Rounding of weights by the error of their convolution's result."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, calibrate, calibration_tensors, collect
from engine.calibrate.corrections.rounding import input_columns, round_weights, rounded
from engine.ir import calibration_nodes, constant_of, read_calibration, to_bytes
from engine.place import PlacementOptions, place
from tests.engine.calibrate.models import graph, residual

RNG = np.random.default_rng(3)
DATA = {"x": RNG.standard_normal((10, 3, 6, 5)).astype(np.float32)}


@pytest.mark.parametrize("groups", [1, 2])
def test_correlated_inputs_are_rounded_with_less_error_than_to_nearest(groups: int) -> None:
    mixing = RNG.standard_normal((groups, 8, 2))
    x = mixing @ RNG.standard_normal((groups, 2, 500)) + 0.1 * RNG.standard_normal((groups, 8, 500))
    weight = RNG.standard_normal((4 * groups, 8)).astype(np.float32)
    scales = np.abs(weight).max(axis=1) / 15
    found = rounded(weight, scales, x @ x.transpose(0, 2, 1))
    nearest = np.clip(np.rint(weight / scales[:, np.newaxis]), -127, 127) * scales[:, np.newaxis]

    def errors(values: np.ndarray) -> np.ndarray:
        return (((values - weight).reshape(groups, 4, 8) @ x) ** 2).sum(axis=2)

    assert (errors(found) <= errors(nearest) * (1 + 1e-5)).all()
    assert errors(found).sum() < 0.7 * errors(nearest).sum()
    integers = found / scales[:, np.newaxis]
    np.testing.assert_allclose(integers, np.rint(integers), atol=1e-4)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 1], "pads": [1, 1, 1, 1]},
        {"dilations": [1, 2]},
        {"group": 2, "pads": [1, 1, 1, 1]},
    ],
)
def test_columns_times_weights_are_the_convolution(attributes: dict[str, object]) -> None:
    group = int(str(attributes.get("group", 1)))
    weight = RNG.standard_normal((6, 4 // group, 3, 2)).astype(np.float32)
    x = RNG.standard_normal((1, 4, 7, 8)).astype(np.float32)
    model = graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attributes)], {"x": x.shape}, ["y"], {"w": weight}
    )
    columns = input_columns(x, model.graph[0], weight.shape, group)
    result = weight.reshape(group, 6 // group, -1) @ columns
    np.testing.assert_allclose(
        result.reshape(-1), FloatSession(model).run({"x": x})["y"].reshape(-1), rtol=1e-4, atol=1e-4
    )


def test_rounded_weights_lie_on_the_grid_they_had() -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())
    before = to_bytes(calibrated)
    found = round_weights(calibrated, ArrayData(DATA))
    assert to_bytes(calibrated) == before
    changed = 0
    for old, new in zip(calibration_nodes(calibrated), calibration_nodes(found), strict=True):
        weight, original = constant_of(new.inputs[0]), constant_of(old.inputs[0])
        np.testing.assert_array_equal(read_calibration(new).scales, read_calibration(old).scales)
        if weight is None or original is None:
            continue
        steps = read_calibration(new).scales.reshape(-1, 1, 1, 1)
        np.testing.assert_allclose(weight / steps, np.rint(weight / steps), atol=1e-4)
        changed += int((np.rint(weight / steps) != np.rint(original / steps)).sum())
    assert changed
    wanted = FloatSession(model).run(DATA)["y"]
    errors = [float(((FloatSession(m).run(DATA)["y"] - wanted) ** 2).mean()) for m in (found, calibrated)]
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_do_not_count(value: float) -> None:
    model = residual()
    placed = place(model, "bayes-e", PlacementOptions()).model
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())
    spoilt = {"x": DATA["x"].copy()}
    spoilt["x"][3, 0, 0, 0] = value
    rest = {"x": np.delete(DATA["x"], 3, axis=0)}
    found, wanted = (to_bytes(round_weights(calibrated, ArrayData(data))) for data in (spoilt, rest))
    assert found == wanted
