"""Unsigned tensors, and the signed integers that stand for them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import CalibrationOptions, FloatSession, calibrate, calibration_tensors, collect, to_signed
from engine.calibrate.methods.asymmetric import unsigned_tensors
from engine.errors import UnsupportedError
from engine.frontend.outputs import with_outputs
from engine.ir import before_calibration, calibration_nodes, read_calibration, to_bytes
from engine.place import NodeTypes, PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from tests.engine.calibrate.models import graph, residual

DATA = {"x": np.random.default_rng(3).standard_normal((10, 3, 6, 5)).astype(np.float32)}


def chain(activation: str = "Relu", pads: int = 0, group: int = 1) -> ir.Model:
    """conv0 -> activation -> conv1 -> activation -> conv2, 3x3 in the middle."""
    rng = np.random.default_rng(1)
    constants = {
        "w0": rng.standard_normal((4, 3, 1, 1)).astype(np.float32),
        "b0": rng.standard_normal(4).astype(np.float32),
        "w1": rng.standard_normal((4, 4 // group, 3, 3)).astype(np.float32),
        "w2": rng.standard_normal((2, 4, 1, 1)).astype(np.float32),
        "low": np.asarray(0, np.float32),
        "high": np.asarray(6, np.float32),
    }
    bounds = ["low", "high"] if activation == "Clip" else []
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], name="conv0"),
        helper.make_node(activation, ["c0", *bounds], ["r0"], name="act0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="conv1", pads=[pads] * 4, group=group),
        helper.make_node(activation, ["c1", *bounds], ["r1"], name="act1"),
        helper.make_node("Conv", ["r1", "w2"], ["y"], name="conv2"),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)


def calibrated(model: ir.Model) -> ir.Model:
    placed = place(model, "bayes-e", PlacementOptions()).model
    return calibrate(placed, collect(model, calibration_tensors(placed), DATA), CalibrationOptions(asymmetric=True))


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_results_of_activations_between_convolutions_are_unsigned(activation: str) -> None:
    model = calibrated(chain(activation))
    types = {before_calibration(node.outputs[0]).name: read_calibration(node) for node in calibration_nodes(model)}
    assert {str(name) for name, found in types.items() if found.qtype == "uint8"} == {"r0", "r1"}
    assert types["r0"].scales == types["r0"].thresholds / np.float32(255)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(chain("LeakyRelu"), set()), (chain(pads=1), {"r1"}), (chain(group=4), {"r1"}), (residual(), set())],
    ids=["negative slope", "padded reader", "depthwise reader", "more readers"],
)
def test_other_tensors_stay_signed(model: ir.Model, expected: set[str]) -> None:
    assert unsigned_tensors(place(model, "bayes-e", PlacementOptions()).model) == expected


def test_outputs_of_the_model_stay_signed_and_right() -> None:
    model = with_outputs(chain(), ["r0"])
    placed = place(model, "bayes-e", PlacementOptions()).model
    statistics = collect(model, calibration_tensors(placed), DATA)
    found = calibrate(placed, statistics, CalibrationOptions(asymmetric=True))
    assert unsigned_tensors(placed) == {"r1"}
    integer = Session(quantize(to_signed(found), "bayes-e")).run(DATA)["r0"]
    np.testing.assert_allclose(integer, FloatSession(model).run(DATA)["r0"], atol=0.1)


def test_int16_tensors_keep_their_type() -> None:
    requests = {"conv1": NodeTypes(input_type="int16")}
    assert unsigned_tensors(place(chain(), "bayes-e", PlacementOptions(node_info=requests)).model) == {"r1"}


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_signed_model_computes_the_same(activation: str) -> None:
    model = calibrated(chain(activation))
    before = to_bytes(model)
    signed = to_signed(model)
    assert {read_calibration(node).qtype for node in calibration_nodes(signed)} == {"int8"}
    assert to_bytes(model) == before
    expected, found = FloatSession(model).run(DATA)["y"], FloatSession(signed).run(DATA)["y"]
    # A value between two integers may round either way once the offset is in it: one step of one input at most.
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    assert np.abs(found - expected).mean() < 1e-3 * np.abs(expected).max()


def test_integers_are_as_close_as_signed_ones() -> None:
    model = chain()
    wanted = FloatSession(model).run(DATA)["y"]
    quantized = Session(quantize(to_signed(calibrated(model)), "bayes-e"))
    found = quantized.run(DATA)["y"]
    assert np.abs(found - wanted).mean() < 0.02 * np.abs(wanted).max()


def test_unsigned_types_elsewhere_are_refused() -> None:
    model = place(chain(pads=1), "bayes-e", PlacementOptions()).model
    model = calibrate(model, collect(chain(pads=1), calibration_tensors(model), DATA), CalibrationOptions())
    node = next(node for node in calibration_nodes(model) if before_calibration(node.outputs[0]).name == "r0")
    node.attributes["qtype"] = ir.AttrString("qtype", "uint8")
    with pytest.raises(UnsupportedError, match="uint8 is for results of a convolution"):
        to_signed(model)
