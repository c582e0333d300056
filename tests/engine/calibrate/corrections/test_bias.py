"""What corrections take out of biases, and whose errors they do not see."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, run_calibration
from engine.calibrate.corrections.bias import (
    correct_biases,
    correct_in_turn,
    mean_errors,
    with_biases_of,
)
from engine.ir import constant_of, to_bytes
from engine.place import PlacementOptions, place
from engine.rulebook.integers import BIAS_CORRECTION_SAMPLE
from engine.rulebook.marks import costly
from tests.engine.calibrate.models import DATA, add_calibration, calibrated_residual, graph, residual


@pytest.mark.parametrize("options", [{"asymmetric": True}, {"calibration_type": "default"}])
def test_mean_bias_correction_replaces_the_originals(options: dict[str, object]) -> None:
    plain, theirs, own, both = (
        to_bytes(calibrated_residual(**options, **dict.fromkeys(words, True)))
        for words in ((), ("bias_correction",), ("mean_bias_correction",), ("bias_correction", "mean_bias_correction"))
    )
    assert own == both
    assert len({plain, theirs, own}) == 3


def test_bias_correction_in_turn_leaves_the_last_sample_without_mean_error() -> None:
    data, calibrated = ArrayData(DATA), calibrated_residual()
    before = to_bytes(calibrated)
    corrected = correct_in_turn(residual(), calibrated, data, order=["conv0", "conv1"])
    feed = data.read(len(data) - 1, len(data))
    convolutions = [node for node in residual().graph if node.op_type == "Conv"]
    results = [str(node.outputs[0].name) for node in convolutions]
    wanted = FloatSession(residual(), results).run(feed)
    old, new = (FloatSession(model, results).run(feed) for model in (calibrated, corrected))
    assert to_bytes(calibrated) == before
    for name in results:
        assert np.abs((old[name] - wanted[name]).mean(axis=(0, 2, 3))).max() > 1e-4
        np.testing.assert_allclose((new[name] - wanted[name]).mean(axis=(0, 2, 3)), 0, atol=2e-6)


def test_samples_that_are_not_finite_do_not_reach_biases() -> None:
    x = DATA["x"].copy()
    x[[0, -1], 0, 0, 0] = np.nan, np.inf
    holed, finite, calibrated = ArrayData({"x": x}), ArrayData({"x": DATA["x"][1:-1]}), calibrated_residual()
    expected = correct_in_turn(residual(), calibrated, finite), correct_biases(calibrated, finite, 7)
    found = correct_in_turn(residual(), calibrated, holed), correct_biases(calibrated, holed)
    assert list(map(to_bytes, found)) == list(map(to_bytes, expected))
    nothing = ArrayData({"x": np.full_like(x, np.nan)})
    for model in (correct_in_turn(residual(), calibrated, nothing), correct_biases(calibrated, nothing)):
        assert to_bytes(model) == to_bytes(calibrated.clone())


@pytest.mark.parametrize("word", ["bias_correction", "mean_bias_correction"])
def test_convolutions_that_are_calibrated_outputs_are_corrected(word: str) -> None:
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv")]
    constants = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "b": np.zeros(4, np.float32)}
    model = graph(nodes, {"x": (1, 3, 6, 5)}, ["y"], constants)
    placed = place(model, "bayes-e", PlacementOptions(output_type="int8")).model
    corrected = run_calibration(model, placed, ArrayData(DATA), CalibrationOptions(**{word: True}))
    (node,) = (node for node in corrected.graph if node.op_type == "Conv")
    assert np.abs(constant_of(node.inputs[2])).max() > 0


def test_the_float_graph_takes_over_corrected_biases() -> None:
    corrected = correct_in_turn(residual(), calibrated_residual(), ArrayData(DATA))
    reference = with_biases_of(corrected, residual())
    theirs, ours = (
        {node.name: constant_of(node.inputs[2]) for node in model.graph if node.op_type == "Conv"}
        for model in (corrected, reference)
    )
    (old,) = (constant_of(node.inputs[2]) for node in residual().graph if node.name == "conv0")
    assert theirs.keys() == {"conv0", "conv1"}
    for name, bias in theirs.items():
        np.testing.assert_array_equal(ours[name], bias)
    assert not np.array_equal(theirs["conv0"], old)


def test_bias_correction_brings_the_means_back() -> None:
    plain = calibrated_residual()
    before = to_bytes(plain)
    corrected = correct_biases(plain, ArrayData(DATA), 10)
    errors = {name: np.abs(error).max() for name, error in mean_errors(plain, ArrayData(DATA), 10).items()}
    # The other runs of the corrected model start from the same float tensors, so the mean error is gone but for
    # what the correction itself, being in the float path too, cannot change: quantised less plain stays as it is.
    found, wanted = FloatSession(corrected).run(DATA)["y"], FloatSession(residual()).run(DATA)["y"]
    old = FloatSession(plain).run(DATA)["y"]
    assert errors.keys() == {"conv0", "conv1"}
    assert to_bytes(plain) == before
    assert np.abs((found - wanted).mean(axis=0)).max() < np.abs((old - wanted).mean(axis=0)).max()


def one_convolution(step: float, bias: bool = True) -> ir.Model:
    """``y = x + 2 x' (+ 0.5)`` of two channels, the input quantised in steps of ``step``."""
    inputs, constants = ["x", "w"], {"w": np.asarray([[[[1.0]], [[2.0]]]], np.float32)}
    if bias:
        inputs, constants = [*inputs, "b"], {**constants, "b": np.asarray([0.5], np.float32)}
    model = graph([helper.make_node("Conv", inputs, ["y"], name="conv")], {"x": (1, 2, 1, 2)}, ["y"], constants)
    add_calibration(model, "x", thresholds=[127 * step], scales=[step])
    return model


X = np.asarray([[[[0.25, 0.25]], [[0.75, 0.25]]], [[[1.25, 0.0]], [[0.0, 0.0]]]], np.float32)
"""In steps of 1: 0.25 becomes 0, 0.75 becomes 1, 1.25 becomes 1."""


@pytest.mark.parametrize(
    ("samples", "error"),
    [
        (1, (-0.25 + 2 * 0.25 + -0.25 + 2 * -0.25) / 2),  # of two positions
        (2, ((-0.25 + 2 * 0.25 + -0.25 + 2 * -0.25) / 2 + -0.25 / 2) / 2),
        (9, ((-0.25 + 2 * 0.25 + -0.25 + 2 * -0.25) / 2 + -0.25 / 2) / 2),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_the_mean_of_quantised_less_float_is_taken_out(samples: int, error: float, bias: bool) -> None:
    model, data = one_convolution(1.0, bias), ArrayData({"x": X})
    assert mean_errors(model, data, samples)["conv"] == pytest.approx([error])
    corrected = correct_biases(model, data, samples)
    (node,) = (node for node in corrected.graph if node.op_type == "Conv")
    assert constant_of(node.inputs[2]) == pytest.approx([0.5 * bias - error])


def test_a_bias_that_is_computed_is_left_alone() -> None:
    model = one_convolution(1.0)
    model.graph.initializers["b"].const_value = None
    assert mean_errors(model, ArrayData({"x": X}), 1) == {}


def test_errors_of_changed_weights_are_measured_against_the_old_ones() -> None:
    origin, data = one_convolution(1 / 64), ArrayData({"x": X})
    changed = one_convolution(1 / 64)
    changed.graph.initializers["b"].const_value = ir.tensor(np.asarray([0.75], np.float32), name="b")
    assert mean_errors(changed, data, 2)["conv"] == pytest.approx([0.0])
    assert mean_errors(changed, data, 2, origin=origin)["conv"] == pytest.approx([0.25])


def two_convolutions(weight: float = 1.0) -> tuple[ir.Model, ir.Model]:
    """``y = weight (x + 0) + x`` of two channels of which the second keeps what it was, float and calibrated."""
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["c"], name="first"),
        helper.make_node("Conv", ["c", "w"], ["y"], name="second"),
    ]
    v = np.asarray([[[[1.0]], [[0.0]]], [[[0.0]], [[1.0]]]], np.float32)
    w = np.asarray([[[[weight]], [[0.0]]], [[[0.0]], [[1.0]]]], np.float32)
    model = graph(nodes, {"x": (1, 2, 1, 2)}, ["y"], {"v": v, "w": w, "b": np.zeros(2, np.float32)})
    calibrated = model.clone()
    add_calibration(calibrated, "x", thresholds=[127.0], scales=[1.0])
    add_calibration(calibrated, "w", thresholds=[weight], scales=[weight / 64])
    return model, calibrated


TWO = ArrayData({"x": np.asarray([[[[1.25, 1.25]], [[4.0, 4.0]]]], np.float32)})
"""In steps of 1 the first channel loses 0.25, and the second nothing."""


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["first", "second"], {"first": [0.25, 0.0]}),  # nothing is left to take out of the second
        (["second", "first"], {"first": [0.25, 0.0], "second": [0.25, 0.0]}),  # taken out twice
    ],
)
def test_what_is_corrected_before_is_seen(order: list[str], expected: dict[str, list[float]]) -> None:
    model, calibrated = two_convolutions()
    corrected = correct_in_turn(model, calibrated, TWO, order=order)
    found = {str(node.name): node.inputs[2] for node in corrected.graph if node.op_type == "Conv" and node.inputs[2:]}
    assert {name: constant_of(value).tolist() for name, value in found.items()} == expected


def test_nothing_is_corrected_where_outputs_are_not_more_similar() -> None:
    """3 is quantised to 4: the second takes 1 out, then the first as much, and 2 is further from 3 in angle."""
    model, calibrated = two_convolutions(weight=4.0)
    data = ArrayData({"x": np.asarray([[[[0.75, 0.75]], [[4.0, 4.0]]]], np.float32)})
    once, twice = (
        correct_in_turn(model, calibrated, data, order=order) for order in (["first", "second"], ["second", "first"])
    )
    assert to_bytes(once) != to_bytes(calibrated.clone())
    assert to_bytes(twice) == to_bytes(calibrated.clone())


def test_a_convolution_without_a_bias_gets_one() -> None:
    model, calibrated = one_convolution(1.0, bias=False), one_convolution(1.0, bias=False)
    calibration = next(node for node in model.graph if node.op_type == "HzCalibration")
    calibration.outputs[0].replace_all_uses_with(calibration.inputs[0])
    model.graph.remove(calibration, safe=True)
    data = ArrayData({"x": np.asarray([[[[0.25, 3.25]], [[0.75, 2.75]]]], np.float32)})
    (node,) = (node for node in correct_in_turn(model, calibrated, data).graph if node.op_type == "Conv")
    assert constant_of(node.inputs[2]).tolist() == [-0.25]


def test_nodes_that_were_corrected_in_turn_are_marked() -> None:
    corrected = correct_in_turn(residual(), calibrated_residual(), ArrayData(DATA))
    assert {rule.id: nodes for rule, nodes in costly(corrected).items()} == {BIAS_CORRECTION_SAMPLE: ("conv0", "conv1")}
