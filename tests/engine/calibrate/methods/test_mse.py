"""Thresholds of least square error, on histograms whose best threshold is known."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate.methods.mse import CANDIDATES, LEAST_SHARE, mse_threshold
from engine.calibrate.statistics.distribution import Histogram


def histogram(width: float, bins: int = 1024, **counts: int) -> Histogram:
    """Counts by bin: ``b3=5`` puts five into bin 3."""
    found = np.zeros(bins, np.int64)
    for name, value in counts.items():
        found[int(name[1:])] = value
    return Histogram(found, width)


def test_without_values_above_zero_the_maximum_stays() -> None:
    assert mse_threshold(Histogram(np.zeros(4, np.int64), 0.0), 0.0) == 0.0
    assert mse_threshold(histogram(0.5, b0=9), 3.0) == 3.0, "the first bin counts as zero, which costs nothing"


def test_a_rare_outlier_is_clipped_and_a_frequent_one_is_not() -> None:
    """Values at 20.5 / 1024 of the maximum and one at its end."""
    rare, frequent = histogram(1 / 1024, b205=10**9, b1023=1), histogram(1 / 1024, b205=10, b1023=10)
    assert mse_threshold(rare, 1.0) < 0.5
    assert mse_threshold(frequent, 1.0) > 0.95


def test_the_error_is_that_of_clipping_and_rounding_to_even() -> None:
    counts = np.random.default_rng(0).integers(0, 1000, 1024)
    counts[600:] //= 200
    found, maximum = mse_threshold(Histogram(counts, 0.01), 10.2), 10.2
    centres = [min((index + 0.5) * 0.01, maximum) for index in range(1024)]

    def error(threshold: float) -> float:
        step = threshold / 127
        return sum(
            count * (min(round(value / step), 127) * step - value) ** 2
            for value, count in list(zip(centres, counts.tolist(), strict=True))[1:]
        )

    candidates = [maximum * (1 - index * 0.8 / 199) for index in range(200)]
    assert found == pytest.approx(min(candidates, key=error))


def test_of_equally_good_thresholds_the_largest_counts() -> None:
    """The one value is reached exactly by every threshold of which it is a whole number of steps."""
    assert mse_threshold(histogram(1.0, bins=4, b2=1), 2.5) == 2.5


def test_the_search_ends_at_a_fifth_of_the_maximum() -> None:
    assert (CANDIDATES, LEAST_SHARE) == (200, 0.2)
    assert mse_threshold(histogram(1 / 1024, b1=10**15, b1023=1), 1.0) == pytest.approx(0.2, abs=0.01)


def test_sixteen_bits_clip_less() -> None:
    spread = histogram(1 / 1024, b50=10**6, b1023=1)
    assert mse_threshold(spread, 1.0, "int16") > mse_threshold(spread, 1.0, "int8")
