"""Single nodes' quantisation switched on and off."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate import FloatSession
from engine.calibrate.methods.sensitivity import (
    alone,
    calibrations_by_node,
    double,
    local_similarities,
    mean_cosine,
    sensitivities,
    similarity,
)
from engine.floats.compare import cosine
from engine.ir import node_by_name
from tests.engine.calibrate.models import DATA, add_calibration, calibrated_residual, residual


def test_sensitivities_cover_every_node_that_reads_calibrated_tensors() -> None:
    calibrated = calibrated_residual()
    found = sensitivities(calibrated, {"x": DATA["x"][:2]})
    assert found.keys() == calibrations_by_node(calibrated).keys()
    assert all(0.9 < value <= 1.0 + 1e-9 for value in found.values())


def small() -> ir.Model:
    """Two calibrations whose steps are so wide that each alone shows."""
    model = residual()
    add_calibration(model, "x", thresholds=[127.0], scales=[1.0])
    add_calibration(model, "r0", thresholds=[127.0], scales=[2.0])
    return model


def test_which_calibrations_a_node_reads() -> None:
    assert calibrations_by_node(small()) == {"conv0": ("x_HzCalibration",), "conv1": ("r0_HzCalibration",)}


def test_sensitivities_are_means_over_samples_of_the_cosine() -> None:
    expected, changed = FloatSession(residual()).run(DATA)["y"], residual()
    add_calibration(changed, "r0", thresholds=[127.0], scales=[2.0])
    actual = FloatSession(changed).run(DATA)["y"]
    mean = np.mean([cosine(row, other) for row, other in zip(actual, expected, strict=True)])
    assert sensitivities(small(), DATA, ["conv1"]) == {"conv1": pytest.approx(float(mean), abs=1e-7)}


def test_similarity_counts_every_row_of_every_output_alike() -> None:
    one, other = np.asarray([[1.0, 0.0]]), np.asarray([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert similarity({"a": one, "b": other}, {"a": one, "b": np.asarray([[1.0, 0.0]] * 3)}) == 0.25


def test_local_similarities_see_a_node_with_nothing_quantised_above_it() -> None:
    found = local_similarities(small(), DATA)
    changed = residual()
    add_calibration(changed, "r0", thresholds=[127.0], scales=[2.0])
    plain, quantized = (FloatSession(model, ["c1"]).run(DATA)["c1"] for model in (residual(), changed))
    assert found.keys() == {"conv0", "conv1"}
    assert found["conv1"] == pytest.approx(cosine(quantized, plain), abs=1e-6)


def test_a_node_is_doubled_beside_itself() -> None:
    model = small()
    node = node_by_name(model, ["conv1"])["conv1"]
    assert double(model.graph, node) == ("c1", "c1_alone")
    copy = node_by_name(model, [alone("conv1")])["conv1_alone"]
    assert [value.name for value in node.inputs] == ["r0", "w1", "b1"]
    assert [value.name for value in copy.inputs] == ["r0_calibrated", "w1", "b1"]


def test_cosines_of_samples_count_row_by_row_output_by_output() -> None:
    assert mean_cosine([((1.0,), (0.5, 0.5)), ((0.0,), (1.0, 0.0))]) == 0.5
