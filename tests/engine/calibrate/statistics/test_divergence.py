"""The curve of divergences against a direct transcription of the rule of reference/calibration.md 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS
from engine.calibrate.statistics.distribution import Histogram
from engine.calibrate.statistics.divergence import EMPTY


def curve_by_rule(histogram: NDArray[np.int64]) -> NDArray[np.float64]:
    counts = histogram.astype(np.float64)
    counts[0] = 0
    curve = []
    for bins in range(LEVELS, counts.size):
        tail = counts[bins:].sum()
        p = counts[:bins].copy()
        p[-1] += tail
        starts = np.arange(LEVELS) * (bins // LEVELS)
        filled = np.add.reduceat(p != 0, starts, dtype=np.float64)
        level = np.add.reduceat(counts[:bins], starts) / np.maximum(filled, 1)
        q = np.where(p != 0, level[np.minimum(np.arange(bins) // (bins // LEVELS), LEVELS - 1)], 0)
        if not q.any():
            curve.append(np.inf)
            continue
        p, q = p[p > 0] / p.sum(), q[p > 0] / q.sum()
        curve.append(float(np.sum(p * np.log(p / np.where(q > 0, q, EMPTY)))))
    return np.array(curve)


def counts_of(values: NDArray[Any], bins: int = 1024) -> NDArray[np.int64]:
    return np.histogram(np.abs(values), bins, (0, np.abs(values).max()))[0].astype(np.int64)


RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(counts_of(RNG.standard_normal(50_000)), id="normal"),
        pytest.param(counts_of(RNG.standard_t(2, 5_000)), id="outliers"),
        pytest.param(counts_of(RNG.standard_normal(300), 1300), id="mostly empty bins"),
        pytest.param(np.eye(1, 1024, 1000, dtype=np.int64)[0], id="one filled bin"),
    ],
)
def test_every_cut_is_as_the_rule_says(counts: NDArray[np.int64]) -> None:
    expected = curve_by_rule(counts)
    found = Histogram(counts, 1.0).divergences
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    known = np.isfinite(expected)
    np.testing.assert_allclose(found[known], expected[known], rtol=1e-9, atol=1e-12)


def test_a_histogram_keeps_its_curve_and_its_counts() -> None:
    counts = counts_of(RNG.standard_normal(1000))
    histogram = Histogram(counts.copy(), 1.0)
    assert histogram.divergences is histogram.divergences
    np.testing.assert_array_equal(histogram.counts, counts)
