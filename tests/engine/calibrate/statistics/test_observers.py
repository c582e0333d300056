"""Order statistics and histograms against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.calibrate.statistics.distribution import FLOAT32_MAX, order_index
from engine.calibrate.statistics.observers import (
    BINS,
    MAX_BINS,
    MERGED_BINS,
    DistributionObserver,
    GrowingHistogram,
    LargestValues,
)
from engine.errors import ConfigError

FRACTIONS = (0.5, 0.9, 0.99, 0.999, 0.99999)
STYLES = ("normal", "relu6", "zeros", "ties", "outlier", "special")


def values(style: str, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(shape).astype(np.float32)
    match style:
        case "relu6":
            array = np.clip(4 * array, 0, 6)
        case "zeros":
            array *= 0
        case "ties":
            array = np.round(array)
        case "outlier":
            array.flat[rng.integers(array.size)] = 1e6
        case "special":
            array.flat[:: max(1, array.size // 5)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1e-40])
    return array


def magnitudes(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """What counts: NaN does not, infinity is the largest float32."""
    flat = np.abs(array[~np.isnan(array)])
    return np.minimum(flat, np.float32(FLOAT32_MAX))


@given(
    style=st.sampled_from(STYLES),
    samples=st.integers(1, 9),
    channels=st.integers(1, 4),
    size=st.integers(1, 700),
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@example(style="ties", samples=9, channels=1, size=700, seed=0, cuts=[1])
def test_order_statistics_equal_sorting(
    style: str, samples: int, channels: int, size: int, seed: int, cuts: list[int]
) -> None:
    array = values(style, (samples, channels, size), seed)
    observer = DistributionObserver(channels, channels * size, samples, FRACTIONS)
    start = index = 0
    while start < samples:
        stop = min(start + cuts[index % len(cuts)], samples)
        observer.update(np.ascontiguousarray(array[start:stop]))
        start, index = stop, index + 1
    found = observer.distribution()
    descending = np.sort(magnitudes(array))[::-1]
    assert found.maximum == (descending[0] if descending.size else 0.0)
    for fraction in FRACTIONS:
        position = order_index(fraction, samples, channels * size)
        expected = descending[min(position, descending.size - 1)] if descending.size else 0.0
        assert found.percentile(fraction) == expected
    per_channel = [magnitudes(array[:, c]).max(initial=0) for c in range(channels)]
    assert observer.channel_max.tolist() == per_channel


def test_order_index_follows_the_rule() -> None:
    assert order_index(1.0, 50, 1000) == 0
    assert order_index(0.9999, 50, 1000) == 4  # float32(1 - 50 / 10,000) is a little more than 0.995
    assert order_index(0.9999, 16, 20000) == 32  # float32(1 - 16 / 10,000) is a little less than 0.9984
    assert order_index(0.5, 50, 1000) == 500  # capped at half a sample
    assert order_index(0.1, 1, 1000) == 500  # 0.1 counts as 0.5
    with pytest.raises(ConfigError, match="range: 0~1"):
        order_index(1.5, 1, 1)


def test_memory_for_largest_values_does_not_grow() -> None:
    largest = LargestValues(100)
    size = largest._buffer.nbytes
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((50, 4000)).astype(np.float32)
    for row in np.sort(np.abs(seen), axis=1):  # ascending: the worst order
        largest.update(row.view(np.int32))
    assert largest._buffer.nbytes == size
    expected = np.sort(np.abs(seen).ravel())[::-1][:100]
    np.testing.assert_array_equal(largest.descending().view(np.float32), expected)


def reference_histogram(groups: list[NDArray[np.float32]]) -> tuple[NDArray[np.int64], float]:
    """The rule of reference/calibration.md 2: a bin is the quotient by the width as a float32."""
    width, counts = 0.0, np.zeros(0, np.int64)
    for group in groups:
        largest = float(group.max())
        if width == 0.0:
            if largest == 0.0:
                continue
            width, counts = largest / BINS, np.zeros(BINS, np.int64)
        needed = math.ceil(largest / width)
        if needed > MAX_BINS:
            k = needed // MERGED_BINS
            counts = np.add.reduceat(counts, np.arange(0, counts.size, min(k, counts.size)))
            width *= k
            needed = math.ceil(largest / width)
        counts = np.pad(counts, (0, max(0, needed - counts.size)))
        bins = np.minimum((group / np.float32(width)).astype(np.int64), counts.size - 1)
        counts += np.bincount(bins, minlength=counts.size)
    return counts, width


@given(
    scales=st.lists(st.sampled_from([0.0, 0.1, 0.9, 1.0, 1.1, 5.0, 30.0, 500.0]), min_size=1, max_size=5),
    style=st.sampled_from(("normal", "relu6", "ties")),
    seed=st.integers(0, 99),
    pieces=st.integers(1, 5),
    known=st.booleans(),
)
@example(scales=[0.0, 1.0, 500.0, 1.0], style="normal", seed=0, pieces=2, known=True)
@example(scales=[1.0, 500.0, 5.0], style="ties", seed=1, pieces=3, known=False)
@example(scales=[1.0, 1e20, 5.0], style="ties", seed=1, pieces=2, known=True)
def test_histogram_grows_and_merges_as_the_rule_says(
    scales: list[float], style: str, seed: int, pieces: int, known: bool
) -> None:
    groups = [np.abs(values(style, (1000,), seed + i)) * np.float32(scale) for i, scale in enumerate(scales)]
    histogram = GrowingHistogram(float(groups[0].max()) if known else 0.0)
    for group in groups:
        for piece in np.array_split(group, pieces):
            histogram.update(piece, float(piece.max()))
        histogram.end_group()
    found = histogram.result()
    counts, width = reference_histogram(groups)
    assert found.width == width
    if width:
        np.testing.assert_array_equal(found.counts[1:], counts[1:])  # zeros before the first range are not counted


@given(seed=st.integers(0, 99), style=st.sampled_from(STYLES))
def test_histogram_of_known_range_does_not_depend_on_order(seed: int, style: str) -> None:
    array = values(style, (6, 500), seed)
    known = magnitudes(array)
    maximum = float(known.max(initial=0))
    results = []
    for order in (array, array[::-1]):
        histogram = GrowingHistogram(maximum)
        for row in order:
            histogram.update(np.ascontiguousarray(row), float(magnitudes(row).max(initial=0)))
        results.append(histogram.result())
    assert results[0].counts[1:].tolist() == results[1].counts[1:].tolist()
    assert results[0].counts.size == BINS
    assert results[0].counts.sum() <= known.size


def test_equalised_values_are_observed() -> None:
    array = values("normal", (3, 2, 50), 0)
    scales = np.asarray([2.0, 0.5], np.float32)
    observer = DistributionObserver(2, 100, 3, (0.9,), GrowingHistogram(), scales)
    observer.update(array)
    expected = np.sort(np.abs(array * scales[:, np.newaxis]).ravel())[::-1]
    found = observer.distribution()
    assert (found.maximum, found.percentile(0.9)) == (expected[0], expected[order_index(0.9, 3, 100)])


def test_percentile_that_was_not_collected_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"0\.9 was not collected.*1\.0"):
        DistributionObserver(1, 1, 1).distribution().percentile(0.9)
