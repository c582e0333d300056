"""The kl threshold against a direct transcription of the rule of reference/calibration.md 2."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.calibrate.methods.kl import kl_threshold
from engine.calibrate.statistics.bits import LEVELS
from engine.calibrate.statistics.distribution import Histogram
from tests.engine.calibrate.statistics.test_divergence import curve_by_rule, cut_by_rule


@settings(max_examples=max(20, settings.default.max_examples // 3))  # the transcription takes 0.2 s each
@given(
    style=st.sampled_from(("normal", "heavy", "relu6", "sparse", "grown")),
    seed=st.integers(0, 30),
    size=st.sampled_from((200, 5000, 100_000)),
)
def test_threshold_follows_the_rule(style: str, seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    match style:
        case "normal":
            data = np.abs(rng.standard_normal(size))
        case "heavy":
            data = np.abs(rng.standard_t(3, size))
        case "relu6":
            data = np.clip(rng.normal(0, 4, size), 0, 6)
        case "sparse":
            data = np.abs(rng.standard_normal(size)) * (rng.random(size) < 0.05) + (np.arange(size) == 0)
        case _:
            data = np.abs(rng.standard_normal(size))
    bins = 1300 if style == "grown" else 1024
    counts, edges = np.histogram(data, bins=bins, range=(0, data.max()))
    histogram = Histogram(counts.astype(np.int64), float(edges[1]))
    assert kl_threshold(histogram) == (cut_by_rule(histogram.counts) + 0.5) * histogram.width
    means = np.convolve(curve_by_rule(histogram.counts), np.ones(9) / 9, mode="valid")
    first = int(np.argmax(means <= means.min() + 1e-12))
    assert kl_threshold(histogram, decimals=False) == (LEVELS + 4 + first + 0.5) * histogram.width


def test_clipped_activations_keep_almost_their_bound() -> None:
    """A Clip(0, 6) tensor gets 5.97363, never 6 (reference/calibration.md 2)."""
    data = np.clip(np.random.default_rng(0).normal(2, 4, 100_000), 0, 6)
    counts, edges = np.histogram(data, bins=1024, range=(0, 6))
    assert kl_threshold(Histogram(counts.astype(np.int64), float(edges[1]))) == pytest.approx(5.9736328125)


@pytest.mark.parametrize(("small", "large"), [(0, 1), (0, 16), (768, 256), (100_000, 1)])
def test_constants_of_one_magnitude_keep_almost_all_of_it(small: int, large: int) -> None:
    """The scales of LayerNorm, all ones, have 0.99169922, a mask of -100 has 99.169922 (``swin``).

    What empty bins take from the full one lowers its divergence for the last time at cut 1,015.
    """
    counts = np.zeros(1024, np.int64)
    counts[0], counts[-1] = small, large
    histogram = Histogram(counts, 1 / 1024)
    assert kl_threshold(histogram) == pytest.approx(0.99169921875)
    assert kl_threshold(histogram, decimals=False) == 1019.5 / 1024


def test_a_level_stretch_gives_its_first_cut() -> None:
    """Cuts between three lone values out of half a million are alike: the first behind the others is taken."""
    counts = (2e3 * np.exp(-0.5 * (np.arange(1024) / 210) ** 2)).astype(np.int64)
    end = int(np.flatnonzero(counts)[-1]) + 1
    counts[[960, 1000, 1023]] = 1
    # The mean over 9 cuts has its middle 4 behind the first of them, and the cut right behind a count is another one.
    assert kl_threshold(Histogram(counts, 1.0)) == end + 1 + 4 + 0.5


def test_the_first_bin_counts_as_empty() -> None:
    """What lies in it, and in its neighbour, does not matter for it."""
    counts = (2e4 * np.exp(-np.arange(1024) / 90)).astype(np.int64)
    expected = kl_threshold(Histogram(counts, 1.0))
    for first in (0, 1, 10**7):
        assert kl_threshold(Histogram(np.concatenate([[first], counts[1:]]), 1.0)) == expected


def test_counts_in_the_last_bins_give_the_last_cut() -> None:
    """All means take in cuts that no count lies below; the last has the fewest (the reciprocals of Swin)."""
    counts = np.zeros(1027, np.int64)
    counts[-7:] = 7, 16, 205, 192, 70, 18, 4
    assert kl_threshold(Histogram(counts, 1.0)) == 1022.5


def test_zeros_only_give_no_threshold() -> None:
    assert kl_threshold(Histogram(np.zeros(1024, np.int64), 0.0)) == 0.0


def test_the_first_cut_stands_for_itself() -> None:
    """Of 60 tensors asked 46 have it, as this one: every mean takes in worse divergences."""
    counts = np.zeros(1024, np.int64)
    counts[[1, 2, 3, 4, 5, 6, 7, 8, 9, 127, 1023]] = [4, 6, 8, 2, 3, 4, 4, 8, 4, 2, 1]
    assert kl_threshold(Histogram(counts, 1.0)) == 128.5


@pytest.mark.parametrize(("filled", "threshold"), [(18, 1012.5), (36, 942.5)])
def test_six_decimals_decide_between_cuts_that_are_alike(filled: int, threshold: float) -> None:
    """One filled bin and a lone number: float64 has no reason for any cut but the first."""
    counts = np.zeros(1024, np.int64)
    counts[[1, 1023]] = filled, 1
    histogram = Histogram(counts, 1.0)
    assert kl_threshold(histogram, decimals=False) == 132.5
    assert kl_threshold(histogram) == threshold
