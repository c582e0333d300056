"""Fidelity of outputs without labels."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import ModelError
from harness.trials.comparison import FidelityMeter, mean_cosines


def test_figures_by_hand() -> None:
    meter = FidelityMeter()
    floats = np.array([[3.0, 4.0], [1.0, 0.0]], np.float32)
    ours = np.array([[3.0, 4.0], [0.0, 1.0]], np.float32)
    meter.update([ours], [floats])
    np.testing.assert_allclose(meter.cosines, [[1.0], [0.0]])
    assert meter.peak == 1.0
    assert meter.sqnr_db == pytest.approx(10 * np.log10(26 / 2))


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


@pytest.mark.parametrize("shape", [(3, 7, 9001), (40, 900), (2, 65536)])
def test_blocks_give_the_figures_of_whole_arrays(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    floats = rng.standard_normal(shape).astype(np.float32)
    ours = floats + 0.1 * rng.standard_normal(shape).astype(np.float32)
    q, f = (array.reshape(len(array), -1).astype(np.float64) for array in (ours, floats))
    expected = (q * f).sum(axis=1) / np.sqrt((q * q).sum(axis=1) * (f * f).sum(axis=1))
    meter = FidelityMeter()
    meter.update([np.moveaxis(np.ascontiguousarray(np.moveaxis(ours, 0, -1)), -1, 0)], [floats])
    np.testing.assert_allclose(meter.cosines[:, 0], expected, rtol=1e-13)
    assert meter.peak == np.abs(f - q).max()
    assert meter.sqnr_db == pytest.approx(10 * np.log10((f * f).sum() / ((f - q) ** 2).sum()), rel=1e-12)


def test_parts_count_as_one_vector_each_whatever_their_scale() -> None:
    """Boxes in pixels hide what happens to scores where both are one vector: 0.9999 there, 0 for the scores alone."""
    boxes, scores = np.full((2, 4), 100.0), np.array([[1.0, 0.0], [1.0, 0.0]])
    whole = FidelityMeter()
    whole.update([np.hstack([boxes, scores[:, ::-1]])], [np.hstack([boxes, scores])])
    assert whole.cosines.min() > 0.9999
    found = mean_cosines({"boxes": [boxes], "classes": [scores[:, ::-1]]}, {"boxes": [boxes], "classes": [scores]})
    assert found == {"boxes": pytest.approx(1.0), "classes": pytest.approx(0.0)}


def test_zeros_and_equality_give_no_nan() -> None:
    meter = FidelityMeter()
    meter.update([np.zeros((2, 3)), np.ones((2, 3))], [np.zeros((2, 3)), np.zeros((2, 3))])
    np.testing.assert_array_equal(meter.cosines, [[1.0, 0.0], [1.0, 0.0]])
    assert meter.sqnr_db is None
    equal = FidelityMeter()
    equal.update([np.ones((2, 3))], [np.ones((2, 3))])
    assert equal.sqnr_db is None
    assert equal.cosines.max() <= 1.0


def test_outputs_of_other_sizes_are_not_compared_in_part() -> None:
    with pytest.raises(ModelError, match=r"shape \(1, 65536\), the float model's \(1, 32768\)"):
        FidelityMeter().update([np.ones((1, 65536), np.float32)], [np.ones((1, 32768), np.float32)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_cannot_be_compared_is_named(value: float) -> None:
    good, bad = np.ones((2, 3), np.float32), np.full((2, 3), value, np.float32)
    with pytest.raises(ModelError, match="outputs of the float model hold NaN or infinite"):
        FidelityMeter().update([good], [bad])
    with pytest.raises(ModelError, match="outputs of the quantised model"):
        FidelityMeter().update([bad], [good])
