"""The observers' compiled loops, on values whose results are known."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrate.compiled import COUNT, KEEP_LARGER, PEAKS
from engine.calibrate.statistics import loops
from engine.calibrate.statistics.bits import BLOCK, COUNTED, LANES

SPECIAL = [1.0, -3.0, np.nan, -np.nan, 0.0, 2.0]


def bits(*values: float) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.int32)


def channel_peaks(values: np.ndarray, peaks: np.ndarray) -> int:
    """The largest magnitude, after ``peaks`` took theirs."""
    largest = np.full(1, -1, np.int32)
    PEAKS(values, peaks, largest)
    return int(largest[0])


def keep_larger(values: np.ndarray, cutoff: int, buffer: np.ndarray, used: int) -> tuple[int, int]:
    """The next position and the fill of ``buffer`` after it took what is larger."""
    state = np.array([0, used])
    KEEP_LARGER(values, buffer, state, np.int32(cutoff))
    return int(state[0]), int(state[1])


def test_peaks_are_magnitudes_that_are_not_nan() -> None:
    peaks = bits(2.5, 0.0)
    values = bits(*SPECIAL, 0.5, 0.25, -0.125, np.nan, 0.0, 0.0).reshape(1, 2, 6)
    assert channel_peaks(values, peaks) == bits(3.0)[0]
    assert peaks.view(np.float32).tolist() == [3.0, 0.5]


def test_peaks_never_fall_and_infinity_counts() -> None:
    peaks = bits(9.0)
    assert channel_peaks(bits(1.0, 2.0).reshape(2, 1, 1), peaks) == bits(2.0)[0]
    assert peaks.view(np.float32).tolist() == [9.0]
    channel_peaks(bits(-np.inf).reshape(1, 1, 1), peaks)
    assert peaks.view(np.float32).tolist() == [np.inf]


def test_only_what_is_above_the_cutoff_is_kept() -> None:
    buffer = np.zeros(2 * BLOCK, np.int32)
    position, used = keep_larger(bits(*SPECIAL), bits(1.0)[0], buffer, 0)
    assert (position, buffer[:used].view(np.float32).tolist()) == (6, [3.0, 2.0])
    position, used = keep_larger(bits(*SPECIAL), -1, buffer, 0)
    assert (position, buffer[:used].view(np.float32).tolist()) == (6, [1.0, 3.0, 0.0, 2.0])


def test_it_stops_where_another_block_might_not_fit() -> None:
    values = bits(*range(1, 3 * BLOCK + 1))
    buffer = np.zeros(2 * BLOCK, np.int32)
    assert keep_larger(values, -1, buffer, 0) == (2 * BLOCK, 2 * BLOCK)
    assert keep_larger(values, -1, buffer, BLOCK + 1) == (0, BLOCK + 1)


@pytest.mark.parametrize("length", [1, 5, 1024, 2500])
def test_values_are_counted_in_bins_that_hold_their_lower_end(length: int) -> None:
    counts = np.zeros((LANES, 5), np.int64)
    pattern = np.asarray([0.0, -0.5, 0.49, 1.0, -1.99, 2.0, 9.0, np.inf, np.nan], np.float32)
    values = np.resize(pattern, length)
    COUNT(values, np.float32(0.5), counts.reshape(-1), np.empty(COUNTED, np.uint32))
    bins = np.resize(np.asarray([0, 1, 0, 2, 3, 4, 4, 4, -1]), length)
    assert counts.sum(axis=0).tolist() == [int((bins == index).sum()) for index in range(5)]


def test_a_number_just_below_a_bound_is_rounded_up_to_it() -> None:
    """0.7 / 0.1 is 6.9999998 of these float32 numbers, and 7 as one."""
    counts = np.zeros((LANES, 9), np.int64)
    COUNT(np.float32([0.7]), np.float32(0.1), counts.reshape(-1), np.empty(COUNTED, np.uint32))
    assert counts.sum(axis=0).tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0]


def test_the_loops_are_of_this_module() -> None:
    functions = [loop.function for loop in (PEAKS, KEEP_LARGER, COUNT)]
    assert functions == [loops.channel_peaks, loops.keep_larger, loops.count]
