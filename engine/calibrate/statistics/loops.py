"""The inner loops of the observers, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import BLOCK, LANES, Bits, Values
from engine.jit import entry

_MAGNITUDE = np.int32(0x7FFFFFFF)
_INFINITY = np.int32(0x7F800000)
_COUNTED = 1024
"""Values whose bins are found at a time."""


@entry
def channel_peaks(bits: Bits, peaks: Bits) -> np.int32:
    """Take the largest magnitudes that are not NaN of ``bits``, shape (samples, channels, n), into those of ``peaks``.

    Returns:
        the largest of them all.
    """
    largest = np.int32(0)
    for sample in range(bits.shape[0]):
        for channel in range(bits.shape[1]):
            row = bits[sample, channel]
            peak = np.int32(0)
            for index in range(row.size):
                magnitude = row[index] & _MAGNITUDE
                magnitude = magnitude if magnitude <= _INFINITY else np.int32(0)
                peak = max(peak, magnitude)
            peaks[channel] = max(peaks[channel], peak)
            largest = max(largest, peak)
    return largest


@entry
def keep_larger(bits: Bits, position: int, cutoff: np.int32, buffer: Bits, used: int) -> tuple[int, int]:
    """Append magnitudes above ``cutoff`` to ``buffer`` while it has room for a block; the next position, its fill."""
    while position < bits.size and used <= buffer.size - BLOCK:
        block = bits[position : position + BLOCK]
        peak = np.int32(-1)
        for index in range(block.size):
            magnitude = block[index] & _MAGNITUDE
            magnitude = magnitude if magnitude <= _INFINITY else np.int32(-1)
            peak = max(peak, magnitude)
        if peak > cutoff:
            for index in range(block.size):
                magnitude = block[index] & _MAGNITUDE
                # Written in any case and kept if it counts: faster than a branch that is hard to foresee.
                buffer[used] = magnitude
                used += cutoff < magnitude <= _INFINITY
        position += block.size
    return position, used


@entry
def count(values: Values, inverse: float, counts: NDArray[np.int64]) -> None:
    """Add ``|values|`` that are not NaN to the lanes of ``counts``, what is above the last bin to the last bin.

    There are several lanes because equal neighbours would wait for each other. Bins are found for a block of values,
    which vector instructions do, before any is counted.
    """
    last, lane = float(counts.shape[1] - 1), np.uint32(counts.shape[1])
    flat = counts.reshape(-1)
    bins = np.empty(_COUNTED, np.uint32)
    nans = 0
    for start in range(0, values.size, _COUNTED):
        block = values[start : start + _COUNTED]
        for index in range(block.size):
            place = float(abs(block[index])) * inverse
            place = place if place < last else (last if place >= last else 0.0)
            nans += block[index] != block[index]
            bins[index] = np.uint32(np.int32(place)) + np.uint32(index & (LANES - 1)) * lane
        for index in range(block.size):
            flat[bins[index]] += 1
    flat[0] -= nans
