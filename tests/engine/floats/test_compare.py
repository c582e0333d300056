"""Similarity figures of calibrated models."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate import FloatSession, apply_thresholds
from engine.floats.compare import compare, cosine, distance, printed_cosine
from tests.engine.calibrate.models import add_calibration, residual

X = np.random.default_rng(0).standard_normal((1, 3, 6, 5)).astype(np.float32)


def test_distances_are_the_documented_ones() -> None:
    found = distance(np.asarray([1.0, 2.0, 4.0]), np.asarray([1.0, 4.0, 0.0]))
    assert found.l1 == pytest.approx(2.0)  # mean |e|
    assert found.l2 == pytest.approx(np.sqrt(20) / 3)  # ||e|| / n
    assert found.chebyshev == 4.0
    assert found.cosine == pytest.approx(9 / np.sqrt(21 * 17))


@pytest.mark.filterwarnings("error")
def test_infinite_values_give_no_warning() -> None:
    found = distance(np.asarray([np.inf, 1.0]), np.asarray([np.inf, 1.0]))
    assert np.isnan([found.cosine, found.l1, found.l2, found.chebyshev]).all()


def test_cosine_of_zeros() -> None:
    zero, one = np.zeros(3), np.ones(3)
    assert (cosine(zero, zero), cosine(zero, one), cosine(one, one)) == (1.0, 0.0, pytest.approx(1.0))
    assert (printed_cosine(zero, zero), printed_cosine(zero, one)) == (1.0, 1.0)


def test_cosine_of_small_tensors() -> None:
    """A mean of a LayerNorm of ``swin_b``: norms and angle as measured here, -0.14564 as the original prints it."""
    a = np.array([0.01343961, 0.0])
    b = 0.009911992 * np.array([-0.231641, np.sqrt(1 - 0.231641**2)])
    assert printed_cosine(a, b) == pytest.approx(-0.14564, abs=1e-5)
    assert cosine(a, b) == pytest.approx(-0.231641)


def test_nodes_are_compared_behind_their_calibration() -> None:
    model = residual()
    for name in ("c0", "a"):
        add_calibration(model, name)
    calibrated = apply_thresholds(model, {"c0": [4.0], "a": [0.5]})
    found = compare(residual(), calibrated, {"x": X})
    names = ["c0", "r0", "a", "y"]
    expected = FloatSession(residual(), names).run({"x": X})
    actual = FloatSession(calibrated, ["c0_calibrated", "r0", "a_calibrated", "y"]).run({"x": X})
    assert found.nodes["conv0"] == pytest.approx(cosine(actual["c0_calibrated"], expected["c0"]), abs=1e-6)
    assert found.nodes["relu0"] == pytest.approx(cosine(actual["r0"], expected["r0"]), abs=1e-6)
    assert found.nodes["add"] == pytest.approx(cosine(actual["a_calibrated"], expected["a"]), abs=1e-6)
    assert found.outputs["y"].cosine == pytest.approx(cosine(actual["y"], expected["y"]), abs=1e-6)
    assert set(found.nodes) == {str(node.name) for node in residual().graph}


def test_a_model_without_calibration_is_the_same() -> None:
    found = compare(residual(), residual(), {"x": X})
    assert found.outputs["y"].chebyshev == 0.0
    assert all(value == pytest.approx(1.0) for value in found.nodes.values())
