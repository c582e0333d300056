"""What ``mix`` measures before any tensor takes the scale of another one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest
from onnx import NodeProto, helper

from engine.calibrate import CalibrationOptions, calibration_tensors, tensors_for
from engine.calibrate.methods.measured import mix_measures, only_measured
from engine.graph.scales import OWN, scale_source
from engine.ir import calibration_nodes
from engine.place import PlacementOptions, place
from tests.engine.calibrate.models import graph, residual

CONSTANTS = {
    "w": np.ones((4, 4, 1, 1), np.float32),
    "half": np.ones((4, 2, 1, 1), np.float32),
    "wide": np.ones((4, 8, 1, 1), np.float32),
    "start": np.asarray([0]),
    "middle": np.asarray([2]),
    "end": np.asarray([4]),
    "axis": np.asarray([1]),
}


def node(kind: str, inputs: Sequence[str], output: str, **attributes: object) -> NodeProto:
    return helper.make_node(kind, list(inputs), [output], name=output, **attributes)


MAP = [node("Conv", ["x", "w"], "c"), node("Relu", ["c"], "r")]
CASES = {
    "slices that convolutions read": (
        [
            *MAP,
            node("Slice", ["r", "start", "middle", "axis"], "a"),
            node("Slice", ["r", "middle", "end", "axis"], "b"),
            node("Conv", ["a", "half"], "y"),
            node("Conv", ["b", "half"], "z"),
        ],
        {"x", "a", "b"},
    ),
    "what a Transpose gives": (
        [*MAP, node("Transpose", ["r"], "t", perm=[0, 1, 3, 2]), node("Conv", ["t", "w"], "y")],
        {"x", "t"},
    ),
    "what a MaxPool reads": (
        [*MAP, node("MaxPool", ["r"], "m", kernel_shape=[2, 2]), node("Conv", ["m", "w"], "y")],
        {"x", "r"},
    ),
    "what a Concat gives, and an operand that a convolution reads": (
        [
            *MAP,
            node("Conv", ["r", "w"], "c1"),
            node("Relu", ["c1"], "r1"),
            node("Concat", ["r", "r1"], "j", axis=1),
            node("Conv", ["j", "wide"], "y"),
        ],
        {"x", "r", "j"},
    ),
    "not what a LeakyRelu reads": (
        [node("Conv", ["x", "w"], "c"), node("LeakyRelu", ["c"], "l"), node("Conv", ["l", "w"], "y")],
        {"x", "l"},
    ),
    "a Sigmoid and its input": (
        [
            node("Conv", ["x", "w"], "c"),
            node("Sigmoid", ["c"], "s"),
            node("Conv", ["s", "w"], "y"),
        ],
        {"x", "c", "s"},
    ),
}


@pytest.mark.parametrize(("nodes", "expected"), CASES.values(), ids=CASES)
def test_tensors_that_something_computes_with_are_measured(nodes: list[NodeProto], expected: set[str]) -> None:
    outputs = [each.output[0] for each in nodes if each.output[0] in ("y", "z")]
    used = {name: CONSTANTS[name] for each in nodes for name in each.input if name in CONSTANTS}
    placed = place(graph(nodes, {"x": (1, 4, 8, 8)}, outputs, used), "bayes-e", PlacementOptions()).model
    left = calibration_nodes(only_measured(placed))
    assert {str(each.inputs[0].name) for each in left if each.inputs[0] is not None} == expected
    sigmoids = {str(each.input[0]) for each in nodes if each.op_type == "Sigmoid"}
    own = [each for each in left if each.inputs[0] is not None and each.inputs[0].name not in sigmoids]
    assert all(scale_source(each) == OWN for each in own)


def test_what_a_sigmoid_reads_keeps_its_threshold_and_what_it_gives_has_its_own() -> None:
    nodes, _ = CASES["a Sigmoid and its input"]
    model = graph(nodes, {"x": (1, 4, 8, 8)}, ["y"], {"w": CONSTANTS["w"]})
    placed = place(model, "bayes-e", PlacementOptions()).model
    fixed = {
        str(each.inputs[0].name): scale_source(each).fixed
        for each in calibration_nodes(only_measured(placed))
        if each.inputs[0] is not None
    }
    assert fixed == {"x": None, "c": pytest.approx(5.49897), "s": None}


@pytest.mark.parametrize("moved", ["Transpose", "Slice"])
def test_what_is_moved_from_a_sigmoid_has_the_threshold_of_its_own_values(moved: str) -> None:
    movement = {
        "Transpose": node("Transpose", ["s"], "m", perm=[0, 1, 3, 2]),
        "Slice": node("Slice", ["s", "start", "middle", "axis"], "m"),
    }[moved]
    weight = "w" if moved == "Transpose" else "half"
    nodes = [node("Conv", ["x", "w"], "c"), node("Sigmoid", ["c"], "s"), movement, node("Conv", ["m", weight], "y")]
    used = {name: CONSTANTS[name] for each in nodes for name in each.input if name in CONSTANTS}
    placed = place(graph(nodes, {"x": (1, 4, 8, 8)}, ["y"], used), "bayes-e", PlacementOptions()).model
    fixed = {
        str(each.inputs[0].name): scale_source(each).fixed
        for each in calibration_nodes(only_measured(placed))
        if each.inputs[0] is not None
    }
    assert fixed == {"x": None, "c": pytest.approx(5.49897), "m": None}


def test_both_sides_of_a_convolution_in_front_of_a_sum_are_measured() -> None:
    nodes = [node("Conv", ["x", "w"], "c"), node("Tanh", ["c"], "t"), node("Add", ["t", "k"], "s")]
    constants = {"w": CONSTANTS["w"], "k": np.ones((1, 4, 1, 1), np.float32)}
    model = graph([*nodes, node("Conv", ["s", "w"], "y")], {"x": (1, 4, 8, 8)}, ["y"], constants)
    placed = place(model, "bernoulli2", PlacementOptions()).model
    measured = {str(each.name) for each in calibration_nodes(placed) if mix_measures(each)}
    assert {"t_HzCalibration", "UNIT_CONV_FOR_s_HzCalibration"} <= measured


@pytest.mark.parametrize(("march", "expected"), [("bayes-e", {"x", "c", "y"}), ("bernoulli2", {"x", "c"})])
def test_the_int8_result_of_a_function_is_measured_only_where_the_bpu_computes_with_it(
    march: str, expected: set[str]
) -> None:
    nodes = [node("Conv", ["x", "w"], "c"), node("Sigmoid", ["c"], "y")]
    placed = place(graph(nodes, {"x": (1, 4, 8, 8)}, ["y"], {"w": CONSTANTS["w"]}), march, PlacementOptions()).model
    measured = {str(each.name) for each in calibration_nodes(placed) if mix_measures(each)}
    assert measured == {"x_HzCalibration", "c_HzCalibration", "y_before_HzCalibration"} & {
        f"{name}_HzCalibration" for name in (*expected, *(f"{each}_before" for each in expected))
    }


def test_mix_alone_needs_what_is_measured() -> None:
    nodes, expected = CASES["a Sigmoid and its input"]
    model = graph(nodes, {"x": (1, 4, 8, 8)}, ["y"], {"w": CONSTANTS["w"]})
    placed = place(model, "bayes-e", PlacementOptions()).model
    assert set(tensors_for(placed, CalibrationOptions(calibration_type="mix"))) == expected - {"c"}
    assert tensors_for(placed, CalibrationOptions()) == calibration_tensors(placed)


def test_the_placed_model_is_not_changed() -> None:
    placed: ir.Model = place(residual(), "bayes-e", PlacementOptions()).model
    before = [(node.name, scale_source(node)) for node in calibration_nodes(placed)]
    only_measured(placed)
    assert [(node.name, scale_source(node)) for node in calibration_nodes(placed)] == before
