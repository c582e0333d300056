"""Fidelity of outputs without labels."""

from __future__ import annotations

import numpy as np
import pytest

from harness.trials.comparison import FidelityMeter


def test_figures_by_hand() -> None:
    meter = FidelityMeter()
    floats = np.array([[3.0, 4.0], [1.0, 0.0]], np.float32)
    ours = np.array([[3.0, 4.0], [0.0, 1.0]], np.float32)
    meter.update([ours], [floats])
    np.testing.assert_allclose(meter.cosines, [[1.0], [0.0]])
    assert meter.peak == 1.0
    assert meter.sqnr_db == pytest.approx(10 * np.log10(26 / 2))
    assert meter.agreement == 0.5


def test_figures_do_not_depend_on_batches() -> None:
    rng = np.random.default_rng(1)
    floats = [rng.standard_normal((12, 5, 3)).astype(np.float32), rng.standard_normal((12, 2)).astype(np.float32)]
    ours = [array + 0.1 * rng.standard_normal(array.shape).astype(np.float32) for array in floats]
    whole, parts = FidelityMeter(), FidelityMeter()
    whole.update(ours, floats)
    for start in range(0, 12, 5):
        rows = slice(start, start + 5)
        parts.update([array[rows] for array in ours], [array[rows] for array in floats])
    np.testing.assert_array_equal(whole.cosines, parts.cosines)
    assert whole.cosines.shape == (12, 2)
    assert whole.peak == parts.peak
    assert whole.sqnr_db == pytest.approx(parts.sqnr_db)


def test_pixels_decide_one_by_one() -> None:
    floats = np.zeros((1, 2, 2, 2), np.float32)
    floats[0, 1] = [[1, -1], [1, -1]]
    ours = floats.copy()
    ours[0, 1, 0, 0] = -1
    meter = FidelityMeter()
    meter.update([ours], [floats])
    assert meter.agreement == 0.75


def test_several_outputs_or_no_classes_decide_nothing() -> None:
    two, one = FidelityMeter(), FidelityMeter()
    array = np.ones((3, 4), np.float32)
    two.update([array, array], [array, array])
    one.update([array[:, :1]], [array[:, :1]])
    assert two.agreement is None
    assert one.agreement is None


def test_zeros_and_equality_give_no_nan() -> None:
    meter = FidelityMeter()
    meter.update([np.zeros((2, 3)), np.ones((2, 3))], [np.zeros((2, 3)), np.zeros((2, 3))])
    np.testing.assert_array_equal(meter.cosines, [[1.0, 0.0], [1.0, 0.0]])
    assert meter.sqnr_db is None
    equal = FidelityMeter()
    equal.update([np.ones((2, 3))], [np.ones((2, 3))])
    assert equal.sqnr_db is None
    assert equal.cosines.max() <= 1.0
