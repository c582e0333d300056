"""Unsigned tensors, and the signed integers that stand for them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import CalibrationOptions, FloatSession, calibrate, calibration_tensors, collect
from engine.calibrate.methods.asymmetric import unsigned_tensors
from engine.errors import UnsupportedError
from engine.frontend.outputs import with_outputs
from engine.ir import attribute, before_calibration, calibration_nodes, constant_of, read_calibration
from engine.ops.core.derive import convolution_integers, with_offsets
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


def pooled() -> ir.Model:
    """conv0 -> Relu -> MaxPool -> conv1, 3x3 and padded."""
    rng = np.random.default_rng(2)
    constants = {
        "w0": rng.standard_normal((4, 3, 1, 1)).astype(np.float32),
        "w1": rng.standard_normal((2, 4, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="conv0"),
        helper.make_node("Relu", ["c0"], ["r0"], name="act0"),
        helper.make_node("MaxPool", ["r0"], ["p0"], name="pool", kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["y"], name="conv1", pads=[1] * 4),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)


def summed() -> ir.Model:
    """conv0 -> Relu -> conv1, added to the Relu's result; conv2 reads the Relu of the sum."""
    rng = np.random.default_rng(4)
    constants = {f"w{n}": rng.standard_normal((4, 3 if n == 0 else 4, 1, 1)).astype(np.float32) for n in range(3)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="conv0"),
        helper.make_node("Relu", ["c0"], ["r0"], name="act0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="conv1"),
        helper.make_node("Add", ["c1", "r0"], ["a"], name="add"),
        helper.make_node("Relu", ["a"], ["r1"], name="act1"),
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
    [
        (chain("LeakyRelu"), set()),
        (chain(group=4), {"r0", "r1"}),
        (chain(group=4, pads=1), {"r1"}),
        (chain(pads=1), {"r0", "r1"}),
        (pooled(), {"r0", "p0"}),
        (summed(), {"r0", "r1"}),
        (residual(), set()),
    ],
    ids=[
        "negative slope",
        "depthwise reader",
        "padded depthwise reader",
        "padded reader",
        "pooled",
        "summed",
        "more readers",
    ],
)
def test_what_reads_a_tensor_decides_whether_it_is_unsigned(model: ir.Model, expected: set[str]) -> None:
    assert unsigned_tensors(place(model, "bayes-e", PlacementOptions()).model) == expected


def test_outputs_of_the_model_stay_signed_and_right() -> None:
    model = with_outputs(chain(), ["r0"])
    placed = place(model, "bayes-e", PlacementOptions()).model
    statistics = collect(model, calibration_tensors(placed), DATA)
    found = calibrate(placed, statistics, CalibrationOptions(asymmetric=True))
    assert unsigned_tensors(placed) == {"r1"}
    integer = Session(quantize(found, "bayes-e")).run(DATA)["r0"]
    np.testing.assert_allclose(integer, FloatSession(model).run(DATA)["r0"], atol=0.1)


def test_int16_tensors_keep_their_type() -> None:
    requests = {"conv1": NodeTypes(input_type="int16")}
    assert unsigned_tensors(place(chain(), "bayes-e", PlacementOptions(node_info=requests)).model) == {"r1"}


@pytest.mark.parametrize("model", [chain(), chain("Clip", pads=1), pooled(), summed()])
def test_integers_give_what_the_calibrated_model_gives(model: ir.Model) -> None:
    found = calibrated(model)
    expected = FloatSession(found).run(DATA)["y"]
    integer = Session(quantize(found, "bayes-e")).run(DATA)["y"]
    # A value between two integers may round either way: one step of one input at most.
    assert np.abs(integer - expected).max() < 0.03 * np.abs(expected).max()
    assert np.abs(integer - expected).mean() < 2e-3 * np.abs(expected).max()


def test_a_padded_reader_gets_integers_that_stand_for_zero() -> None:
    quantized = quantize(calibrated(chain(pads=1)), "bayes-e")
    nodes = {str(node.name): node for node in quantized.graph}
    assert [nodes["r0_calibrated_pad"].op_type, nodes["conv1"].inputs[0].name] == ["HzPad", "r0_calibrated_pad_output"]
    assert constant_of(nodes["r0_calibrated_pad"].inputs[1]) == -128
    assert attribute(nodes["conv1"], "pads") == (0, 0, 0, 0)
    assert {"activation"} & nodes["conv0"].attributes.keys() == set()


def test_biases_make_up_for_offsets_in_whole_numbers() -> None:
    thresholds = np.array([127.0, 127.0], np.float32)
    weights = np.array([1, 2, 3, -4], np.float32).reshape(2, 2, 1, 1)
    scales = np.ones(1, np.float32), np.full(1, 3, np.float32)
    plain = convolution_integers(weights, thresholds, None, *scales, 8, bias_bits=32)
    split = plain.requantization
    assert split is not None
    found = with_offsets(plain, {"e_scale": [20000, 20001], "e_shift": [-5, 1]}, 128, 128, 128)
    output = [(128 << int(split.out_shift[0])) // int(split.scale[0]) << int(split.right_shift[0])] * 2
    summand = np.array([128 * 20000 >> 5, 128 * 20001 << 1])
    np.testing.assert_array_equal(found.bias - plain.bias, 128 * np.array([3, -1]) - output + summand)


def test_unsigned_types_elsewhere_are_refused() -> None:
    model = place(residual(), "bayes-e", PlacementOptions()).model
    model = calibrate(model, collect(residual(), calibration_tensors(model), DATA), CalibrationOptions())
    node = next(node for node in calibration_nodes(model) if before_calibration(node.outputs[0]).name == "a")
    node.attributes["qtype"] = ir.AttrString("qtype", "uint8")
    with pytest.raises(UnsupportedError, match="uint8 is for results of a convolution"):
        quantize(model, "bayes-e")
