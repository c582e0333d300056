"""Results of convolutions that read int16, calibrated twice where one input at its threshold may exceed their own."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, run_calibration
from engine.calibrate.methods.wide import widen_results
from engine.ir import before_calibration, calibration_nodes, node_by_name, read_calibration, to_bytes
from engine.place import NodeTypes, PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from tests.engine.calibrate.models import graph

DATA = {"x": np.random.default_rng(5).standard_normal((9, 3, 6, 5)).astype(np.float32)}
WIDE = PlacementOptions(node_info={"middle": NodeTypes(input_type="int16")})


def network(**attributes: object) -> ir.Model:
    """conv -> conv that reads int16, whose largest weight is at a channel of small values -> Softplus -> conv."""
    rng = np.random.default_rng(1)
    constants = {
        "w0": rng.standard_normal((3, 3, 1, 1)).astype(np.float32),
        "w1": np.array([1.0, 0.2, 0.2] * 3, np.float32).reshape(3, 3, 1, 1),
        "w2": rng.standard_normal((2, 3, 1, 1)).astype(np.float32),
    }
    constants["w0"][0] *= 0.01
    if "group" in attributes:
        constants["w1"] = np.ones((3, 1, 1, 1), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="first"),
        helper.make_node("Conv", ["c0", "w1"], ["c1"], name="middle", **attributes),
        helper.make_node("Softplus", ["c1"], ["s"], name="table"),
        helper.make_node("Conv", ["s", "w2"], ["y"], name="last"),
    ]
    return graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)


def calibrated(model: ir.Model, options: PlacementOptions = WIDE) -> ir.Model:
    placed = place(model, "bayes-e", options).model
    return run_calibration(model, placed, ArrayData(DATA), CalibrationOptions())


def test_a_result_is_as_wide_as_its_arithmetic_first() -> None:
    model = calibrated(network())
    (added,) = (node for node in calibration_nodes(model) if str(node.name).startswith("HzCalibration_"))
    by_tensor = {node.inputs[0].name: read_calibration(node) for node in calibration_nodes(model)}
    source = by_tensor["c0"]
    found = read_calibration(added)
    assert (added.inputs[0].name, found.qtype, source.qtype) == ("c1", "int16", "int16")
    assert found.thresholds == source.thresholds * by_tensor["w1"].thresholds.max()
    behind = node_by_name(model, ["c1_HzCalibration"])["c1_HzCalibration"]
    assert behind.inputs[0] is added.outputs[0]
    assert read_calibration(behind).thresholds < found.thresholds
    assert before_calibration(behind.outputs[0]).name == "c1"


def test_names_count_what_the_graph_had() -> None:
    """As ``HzCalibration_322`` and ``variable_443`` of ``yolov8_nhwc``."""
    model = calibrated(network())
    node = next(node for node in calibration_nodes(model) if str(node.name).startswith("HzCalibration_"))
    others = [other for other in model.graph if other is not node]
    values = len(model.graph.initializers) + len(model.graph.inputs) + sum(len(each.outputs) for each in others)
    assert (node.name, node.outputs[0].name) == (f"HzCalibration_{len(others)}", f"variable_{values}")


@pytest.mark.parametrize(
    ("model", "options"),
    [(network(), PlacementOptions()), (network(group=3), WIDE)],
    ids=["int8 input", "no wider than the data"],
)
def test_other_results_are_calibrated_once(model: ir.Model, options: PlacementOptions) -> None:
    placed = place(model, "bayes-e", options).model
    found = run_calibration(model, placed, ArrayData(DATA), CalibrationOptions())
    assert not any(str(node.name).startswith("HzCalibration_") for node in calibration_nodes(found))
    before = to_bytes(found)
    assert to_bytes(widen_results(found)) == before


def test_integers_are_requantised_to_the_second_calibration() -> None:
    model = calibrated(network())
    quantized = quantize(model, "bayes-e")
    nodes = {str(node.name): node for node in quantized.graph}
    (requantized,) = (node for node in quantized.graph if node.op_type == "HzRequantize" and "variable" in node.name)
    added = next(node for node in calibration_nodes(model) if str(node.name).startswith("HzCalibration_"))
    assert requantized.name == f"{added.outputs[0].name}_Requantize"
    assert requantized.inputs[0] is nodes["middle"].outputs[0]
    assert nodes["table"].inputs[0] is requantized.outputs[0]
    expected = FloatSession(model).run(DATA)["y"]
    found = Session(quantized).run(DATA)["y"]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
