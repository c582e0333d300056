from __future__ import annotations

import numpy as np
import pytest

from engine.debug.analysis.metrics import CHUNK, DistanceMeasure, measure


@pytest.mark.parametrize("size", [1, 7, CHUNK, CHUNK + 1, 3 * CHUNK - 5])
def test_measures_in_pieces_are_those_of_the_whole(size: int) -> None:
    rng = np.random.default_rng(size)
    wanted = rng.standard_normal((1, size)).astype(np.float32)
    found = wanted + rng.standard_normal((1, size)).astype(np.float32) / 8
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    expected = {
        DistanceMeasure.COSINE: a @ b / np.linalg.norm(a) / np.linalg.norm(b),
        DistanceMeasure.MSE: np.mean((a - b) ** 2),
        DistanceMeasure.MRE: np.abs(a - b).sum() / np.abs(b).sum(),
        DistanceMeasure.SQNR: 10 * np.log10(b @ b / ((a - b) @ (a - b))),
        DistanceMeasure.CHEBYSHEV: np.abs(a - b).max(),
    }
    for metric in DistanceMeasure:
        assert measure(metric, found, wanted) == pytest.approx(expected[metric], rel=1e-12)


def test_equal_zero_empty_and_nan() -> None:
    zero, one, empty = np.zeros(3), np.ones(3), np.zeros(0)
    assert [measure(metric, one, one) for metric in DistanceMeasure] == pytest.approx([1, 0, 0, np.inf, 0])
    assert [measure(metric, one, zero) for metric in DistanceMeasure] == [0, 1, np.inf, -np.inf, 1]
    assert [measure(metric, zero, zero) for metric in DistanceMeasure] == [1, 0, 0, np.inf, 0]
    assert [measure(metric, empty, empty) for metric in DistanceMeasure] == [1, 0, 0, np.inf, 0]
    spoiled = np.array([np.nan, 1, 1])
    assert np.isnan([measure(metric, spoiled, one) for metric in DistanceMeasure]).all()


@pytest.mark.filterwarnings("error")
def test_infinite_values_cause_no_warning() -> None:
    endless = np.array([np.inf, -np.inf, 1])
    assert np.isnan([measure(metric, endless, endless) for metric in DistanceMeasure]).all()
    assert measure(DistanceMeasure.MSE, endless, np.ones(3)) == np.inf
