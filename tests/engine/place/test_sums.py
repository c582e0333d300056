"""Sums of maps that are convolutions on bernoulli2."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from engine.calibrate import apply_thresholds
from engine.chips import load_chip
from engine.floats.compare import compare
from engine.graph.scales import OWN, scale_source
from engine.ir import calibration_of, constant_of
from engine.optimize import optimize
from engine.place import place
from engine.place.sums import sums_as_convolutions
from engine.quantize import quantize
from tests.engine.place.networks import SHAPE, network, one

X = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
CONVOLUTION = "UNIT_CONV_FOR_Sum"


def block(second: str = "r1") -> ir.Model:
    """``Relu(Relu(c0) + second)``: convolution ``c1`` takes the sum, none does behind its Relu ``r1``."""
    names = ("0", "1") if second == "r1" else ("0",)
    nodes = [helper.make_node("Relu", [f"c{name}"], [f"r{name}"], name=f"Relu_{name}") for name in names]
    nodes.append(helper.make_node("Add", ["r0", second], ["s"], name="Sum"))
    return network([*nodes, one("Relu", "s")], before=2)


def calibrated(model: ir.Model, march: str) -> ir.Model:
    return apply_thresholds(place(model, march).model, None)


def test_a_sum_reads_its_first_map_through_a_convolution_of_weight_one() -> None:
    model = calibrated(block(), "bernoulli2")
    sums_as_convolutions(model, load_chip("bernoulli2"))
    node = next(node for node in model.graph if node.name == CONVOLUTION)
    (reader,) = node.outputs[0].consumers()
    assert (reader.name, [value.name for value in reader.inputs if value]) == ("Sum", [CONVOLUTION, "r1_calibrated"])
    assert [value.name for value in node.inputs if value] == [
        "r0_calibrated",
        "UNIT_WEIGHT_FOR_Sum_calibrated",
        "UNIT_BIAS_FOR_Sum",
    ]
    bias, weight = constant_of(node.inputs[2]), calibration_of(node.inputs[1])
    assert bias is not None
    assert weight is not None
    assert bias.tolist() == [0.0] * 4
    assert (weight.thresholds.tolist(), weight.scales.tolist()) == ([1.0] * 4, [float(np.float32(1 / 127))] * 4)
    before = [each.name for each in model.graph]
    sums_as_convolutions(model, load_chip("bernoulli2"))
    assert [each.name for each in model.graph] == before


def test_a_sum_whose_first_operand_is_constant_reads_the_other_one_so() -> None:
    held = numpy_helper.from_array(X, "held")
    constant = helper.make_node("Constant", [], ["held"], name="Held", value=held)
    relu = helper.make_node("Relu", ["c0"], ["r0"], name="Relu_0")
    nodes = [constant, relu, helper.make_node("Add", ["held", "r0"], ["s"], name="Sum"), one("Relu", "s")]
    model = calibrated(optimize(network(nodes, before=1), "bernoulli2"), "bernoulli2")
    sums_as_convolutions(model, load_chip("bernoulli2"))
    node = next(node for node in model.graph if node.name == CONVOLUTION)
    (reader,) = node.outputs[0].consumers()
    assert [value.name for value in reader.inputs if value] == ["held_calibrated", CONVOLUTION]
    assert next(value.name for value in node.inputs if value) == "r0_calibrated"


@pytest.mark.parametrize(("function", "again"), [("Tanh", True), ("Relu", False)])
def test_what_the_convolution_gives_a_sum_with_a_number_per_channel_is_calibrated_by_its_own_values(
    function: str, again: bool
) -> None:
    nodes = [helper.make_node(function, ["c0"], ["f"], name="F")]
    nodes.append(helper.make_node("Add", ["f", "k"], ["m"], name="Sum"))
    constants = {"k": np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)}
    placed = place(network(nodes, constants=constants), "bernoulli2").model
    names = [str(node.name) for node in placed.graph]
    assert (f"{CONVOLUTION}_HzCalibration" in names) == again
    model = apply_thresholds(placed, None)
    sums_as_convolutions(model, load_chip("bernoulli2"))
    found = {str(node.name): node for node in model.graph}
    convolution, calibration = found[CONVOLUTION], found[f"{CONVOLUTION}_HzCalibration"]
    assert next(str(value.name) for value in convolution.inputs if value) == "f_calibrated"
    assert calibration.inputs[0] is convolution.outputs[0]
    assert scale_source(calibration) == OWN
    assert next(str(value.name) for value in found["Sum"].inputs if value) == f"{CONVOLUTION}_calibrated"


@pytest.mark.parametrize(
    ("march", "second"),
    [
        pytest.param("bernoulli2", "c1", id="the sum is part of a convolution"),
        pytest.param("bayes-e", "r1", id="the march adds maps"),
    ],
)
def test_other_sums_stay_as_they_are(march: str, second: str) -> None:
    model = calibrated(block(second), march)
    before = [node.name for node in model.graph]
    sums_as_convolutions(model, load_chip(march))
    assert [node.name for node in model.graph] == before


def test_the_convolution_computes_the_sum_and_its_relu() -> None:
    model = calibrated(block(), "bernoulli2")
    (found,) = [node for node in quantize(model, "bernoulli2").graph if node.name == CONVOLUTION]
    assert found.op_type == "HzSQuantizedConv"
    assert [value.name for value in found.inputs if value] == [
        "r0_quantized",
        "UNIT_CONV_FOR_Sum_UNIT_WEIGHT_FOR_Sum_quantized",
        "UNIT_CONV_FOR_Sum_UNIT_BIAS_FOR_Sum_quantized",
        "UNIT_CONV_FOR_Sum_UNIT_BIAS_FOR_Sum_b_scale",
        "r1_quantized",
    ]
    weight = constant_of(found.inputs[1])
    assert weight is not None
    assert set(weight.ravel().tolist()) == {127}
    assert (found.attributes["activation"].as_string(), found.attributes["use_sumin"].as_int()) == ("relu", 1)
    assert [value.name for value in found.outputs] == ["m_quantized"]


def test_its_similarity_is_that_of_what_it_reads() -> None:
    optimized = block()
    model = calibrated(optimized, "bernoulli2")
    without = compare(optimized, model, {"x": X})
    assert CONVOLUTION not in without.nodes
    sums_as_convolutions(model, load_chip("bernoulli2"))
    found = compare(optimized, model, {"x": X})
    assert found.nodes[CONVOLUTION] == pytest.approx(without.nodes["Relu_0"], abs=1e-7)
    assert found.nodes["Sum"] == without.nodes["Sum"]
