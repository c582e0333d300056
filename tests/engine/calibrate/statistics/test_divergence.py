"""The curve of divergences against a direct transcription of the rule of reference/calibration.md 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS, WINDOW
from engine.calibrate.statistics.distribution import Histogram
from engine.calibrate.statistics.divergence import APART, EMPTY, _add_up, _hand_on, _rounded_divergence


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
        p, q = p[p > 0] / p.sum(), q[p > 0] / max(q.sum(), 1)
        curve.append(float(np.sum(p * np.log(p / np.where(q > 0, q, EMPTY)))))
    return np.array(curve)


def rounded_by_rule(histogram: NDArray[np.int64]) -> NDArray[np.float32]:
    """The original's divergences before what is behind six decimals is cut off."""
    counts = histogram.copy()
    counts[0] = 0
    handed = (counts / np.float32(counts.sum())).astype(np.float32)
    own = handed.copy()
    handed[LEVELS - 1] = handed[LEVELS - 1 :].sum(dtype=np.float64)
    curve = []
    for bins in range(LEVELS, counts.size):
        if bins > LEVELS:
            handed[bins - 1] = handed[bins - 2] - own[bins - 2]
            handed[bins - 2] -= handed[bins - 1]
        p = counts[:bins].astype(np.float32)
        p[-1] = counts[bins - 1 :].sum()
        starts = np.arange(LEVELS) * (bins // LEVELS)
        filled = np.add.reduceat(p != 0, starts, dtype=np.float32)
        level = np.add.reduceat(counts[:bins], starts).astype(np.float32) / np.maximum(filled, np.float32(1))
        q = np.where(p != 0, level[np.minimum(np.arange(bins) // (bins // LEVELS), LEVELS - 1)], np.float32(0))
        shares = smoothed(handed[:bins]), smoothed(q / np.float32(max(counts[:bins].sum(), 1)))
        ratio = shares[0] / shares[1]
        # Added up one after the other.
        curve.append(np.cumsum(shares[0] * np.log(ratio.astype(np.float64)).astype(np.float32), dtype=np.float32)[-1])
    return np.array(curve)


def smoothed(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    full = np.float32(np.count_nonzero(shares))
    if full == 0:
        return np.full_like(shares, EMPTY)
    taken = EMPTY * np.float32(shares.size - full) / full
    return np.where(shares > 0, shares - taken, EMPTY)


def cut_by_rule(histogram: NDArray[np.int64]) -> int:
    """The cut that ``kl`` takes, of all means."""
    curve = rounded_by_rule(histogram)
    lowest, cut = curve[0], LEVELS
    kept = (np.floor(curve.astype(np.float64) * 1e6) / 1e6).astype(np.float32)
    for first in range(curve.size - WINDOW + 1):
        mean = sum(float(each) for each in kept[first : first + WINDOW]) / WINDOW
        if mean < float(lowest):
            lowest, cut = np.float32(mean), LEVELS + first + WINDOW // 2
    return cut


def counts_of(values: NDArray[Any], bins: int = 1024) -> NDArray[np.int64]:
    return np.histogram(np.abs(values), bins, (0, np.abs(values).max()))[0].astype(np.int64)


RNG = np.random.default_rng(5)


COUNTS = pytest.mark.parametrize(
    "counts",
    [
        pytest.param(counts_of(RNG.standard_normal(50_000)), id="normal"),
        pytest.param(counts_of(RNG.standard_t(2, 5_000)), id="outliers"),
        pytest.param(counts_of(RNG.standard_normal(300), 1300), id="mostly empty bins"),
        pytest.param(np.eye(1, 1024, 1000, dtype=np.int64)[0], id="one filled bin"),
        pytest.param(np.array([1] * 512 + [0] * 511 + [1]), id="half"),
    ],
)


@COUNTS
def test_every_cut_is_as_the_rule_says(counts: NDArray[np.int64]) -> None:
    expected = curve_by_rule(counts)
    found = Histogram(counts, 1.0).divergences
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@COUNTS
def test_the_least_cut_is_as_the_rule_says(counts: NDArray[np.int64]) -> None:
    assert Histogram(counts, 1.0).least_cut == cut_by_rule(counts)


@COUNTS
def test_float32_is_never_as_far_off_as_means_that_need_none(counts: NDArray[np.int64]) -> None:
    exact, rounded = curve_by_rule(counts), rounded_by_rule(counts)
    assert (np.abs(rounded - exact) < APART / 10 * np.maximum(1, exact)).all()


def test_a_histogram_keeps_its_curve_and_its_counts() -> None:
    counts = counts_of(RNG.standard_normal(1000))
    histogram = Histogram(counts.copy(), 1.0)
    assert histogram.divergences is histogram.divergences
    assert histogram.least_cut == histogram.least_cut
    np.testing.assert_array_equal(histogram.counts, counts)


def test_a_number_too_few_for_float32_shares_hides_no_cut_behind_it() -> None:
    """One of a hundred millions, with more than half of them behind it: what is left is the same float32."""
    counts = np.zeros(1024)
    counts[1:280] = (4e7 / 30 * np.exp(-np.arange(1, 280) / 30)).astype(np.int64)
    counts[[300, 1023]] = 1, 6e7
    sums, filled = np.zeros(1025), np.zeros(1025, np.int64)
    shares, left = np.empty((2, 1024), np.float32)
    _add_up(counts, sums, filled)
    _hand_on(counts, sums, shares, left)
    assert shares[300] == 0
    assert np.isfinite(_rounded_divergence(counts, sums, filled, shares, left, 400))
