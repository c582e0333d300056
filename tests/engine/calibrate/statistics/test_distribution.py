"""Percentiles of distributions, and which order statistic they are."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate.statistics.distribution import Distribution, Histogram, as_channels, clamp_percentile, order_index
from engine.errors import ConfigError


@pytest.mark.parametrize(
    ("fraction", "samples", "elements", "expected"),
    [
        (1.0, 10, 100, 0),
        (0.999, 10, 100, 0),  # float32(0.99) is a little more than 0.99
        (0.99, 1, 1000, 9),
        (0.99, 1, 1010, 10),
        (0.99995, 3, 20000, 3),  # of one sample float32(0.99985), which is a little less
        (0.99995, 4, 20000, 3),
        (0.99995, 8, 10000, 4),
        (0.995, 4, 5000, 99),
        (0.9, 10, 100, 50),  # no more than half a sample
        (0.9, 10, 101, 50),
        (0.0, 1, 7, 3),
        (0.5, 1, 7, 3),
        (0.5, 1, 1, 0),
    ],
)
def test_the_order_statistic_of_a_percentile(fraction: float, samples: int, elements: int, expected: int) -> None:
    assert order_index(fraction, samples, elements) == expected


@pytest.mark.parametrize(("given", "expected"), [(0.0, 0.5), (0.499, 0.5), (0.5, 0.5), (0.501, 0.501), (1.0, 1.0)])
def test_small_percentiles_count_as_a_half(given: float, expected: float) -> None:
    assert clamp_percentile(given) == expected


@pytest.mark.parametrize("given", [-0.001, 1.001, float("nan")])
def test_percentiles_outside_0_to_1_are_refused(given: float) -> None:
    with pytest.raises(ConfigError, match="avaliable range: 0~1"):
        clamp_percentile(given)


def test_percentiles_that_were_collected() -> None:
    distribution = Distribution(4.0, {0.5: 1.0, 0.99: 3.0})
    assert [distribution.percentile(fraction) for fraction in (0.1, 0.99, 1.0)] == [1.0, 3.0, 4.0]
    with pytest.raises(
        ConfigError, match=r"max_percentile 0.9 was not collected; the statistics hold \[0.5, 0.99, 1.0\]"
    ):
        distribution.percentile(0.9)


def test_histograms_are_equal_by_value() -> None:
    first, second = (Histogram(np.asarray([1, 2], np.int64), 0.5) for _ in range(2))
    assert (first == second, hash(first) == hash(second)) == (True, True)
    assert first != Histogram(first.counts, 0.25)
    assert first != Histogram(np.asarray([2, 1], np.int64), 0.5)
    assert first != 0.5


@pytest.mark.parametrize(("shape", "expected"), [((4,), (4, 1, 1)), ((4, 3), (4, 3, 1)), ((4, 3, 2, 5), (4, 3, 10))])
def test_values_by_sample_and_channel(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert as_channels(np.zeros(shape)).shape == expected
