"""Bias correction on the integer simulator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import (
    ArrayData,
    CalibrationOptions,
    FloatSession,
    calibrate,
    calibration_tensors,
    collect,
)
from engine.evaluate.integer_bias import _targets, correct_integer_biases
from engine.ir import calibration_nodes, constant_of, read_calibration, set_constant, to_bytes
from engine.place import PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from tests.engine.calibrate.methods.test_asymmetric import chain
from tests.engine.calibrate.models import graph, residual

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("network", [chain, residual])
@pytest.mark.parametrize("output_type", [None, "int8", "int16"])
def test_the_mean_error_of_the_outputs_falls(network, asymmetric: bool, output_type: str | None) -> None:
    model = network()
    placed = place(model, "bayes-e", PlacementOptions(output_type=output_type)).model
    options = CalibrationOptions(asymmetric=asymmetric)
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), options)
    # Weights of few bits make errors that a bias can do something about.
    for node in tuple(calibration_nodes(calibrated)):
        weight = constant_of(node.inputs[0])
        if weight is not None:
            steps = read_calibration(node).scales.reshape(-1, 1, 1, 1) * 32
            set_constant(calibrated.graph, node, 0, np.rint(weight / steps) * steps)
    before = to_bytes(calibrated)
    corrected = correct_integer_biases(calibrated, model, "bayes-e", ArrayData(DATA), 10)
    assert to_bytes(calibrated) == before
    wanted = FloatSession(model).run(DATA)["y"]

    def mean_error(candidate) -> float:
        found = Session(quantize(candidate, "bayes-e")).run(DATA)["y"]
        axes = tuple(axis for axis in range(found.ndim) if axis != 1)
        return float(np.abs((found - wanted).mean(axis=axes)).max())

    assert mean_error(corrected) < mean_error(calibrated)


def test_requantised_graph_outputs_are_judged_by_the_float_output() -> None:
    model = chain()
    placed = place(model, "bayes-e", PlacementOptions(output_type="int8")).model
    calibrated = calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())
    targets = {target.convolution: (target.tensor, target.integer) for target in _targets(calibrated)}
    assert targets["conv2"] == ("y", "y_before_quantized")
    corrected = correct_integer_biases(calibrated, model, "bayes-e", ArrayData(DATA), 10)
    (last,) = (node for node in corrected.graph if node.name == "conv2")
    assert len(last.inputs) == 3


def calibrated_with(model: ir.Model) -> ir.Model:
    placed = place(model, "bayes-e").model
    return calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions())


def test_a_network_without_convolutions_stays_as_it_is() -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="add"),
        helper.make_node("Sigmoid", ["a"], ["s"], name="sigmoid"),
        helper.make_node("Mul", ["a", "s"], ["y"], name="mul"),
    ]
    model = graph(nodes, {"x": (1, 3, 6, 5)}, ["y"])
    calibrated = calibrated_with(model)
    corrected = correct_integer_biases(calibrated, model, "bayes-e", ArrayData(DATA), 10)
    assert to_bytes(corrected) == to_bytes(calibrated)


def test_means_that_clipping_made_wrong_stay_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """One sample far outside: its mean, shared out among all, would make the others worse."""
    model = residual()
    skewed = {"x": DATA["x"] * np.float32(np.where(np.arange(10) == 3, 50, 1))[:, None, None, None]}
    calibrated = calibrated_with(model)
    corrected = correct_integer_biases(calibrated, model, "bayes-e", ArrayData(skewed), 10)
    assert to_bytes(corrected) == to_bytes(calibrated)
    assert "would make the outputs less similar" in caplog.text


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_do_not_count(value: float) -> None:
    model = chain()
    calibrated = calibrated_with(model)
    spoilt = {"x": DATA["x"].copy()}
    spoilt["x"][3, 0, 0, 0] = value
    rest = {"x": np.delete(DATA["x"], 3, axis=0)}
    found, wanted = (correct_integer_biases(calibrated, model, "bayes-e", ArrayData(data)) for data in (spoilt, rest))
    assert to_bytes(found) == to_bytes(wanted)
    assert all(np.isfinite(constant_of(node.inputs[2])).all() for node in found.graph if len(node.inputs) > 2)
