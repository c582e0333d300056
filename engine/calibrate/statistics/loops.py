"""The inner loops of the observers, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import BLOCK, COUNTED, LANES, Bits, Values
from engine.jit import entry

_MAGNITUDE = np.int32(0x7FFFFFFF)
_INFINITY = np.int32(0x7F800000)


@entry
def channel_peaks(bits: Bits, peaks: Bits, largest: Bits) -> None:
    """Take the largest magnitudes that are not NaN of ``bits``, shape (samples, channels, n), into those of ``peaks``.

    ``largest``, shape (1,), becomes the largest of ``bits``.
    """
    largest[0] = 0
    for sample in range(bits.shape[0]):
        for channel in range(bits.shape[1]):
            row = bits[sample, channel]
            peak = np.int32(0)
            for index in range(row.size):
                magnitude = row[index] & _MAGNITUDE
                magnitude = magnitude if magnitude <= _INFINITY else np.int32(0)
                peak = max(peak, magnitude)
            peaks[channel] = max(peaks[channel], peak)
            largest[0] = max(largest[0], peak)


@entry
def keep_larger(bits: Bits, buffer: Bits, state: NDArray[np.int64], cutoff: np.int32) -> None:
    """Append magnitudes above ``cutoff`` to ``buffer`` while it has room for a block.

    ``state`` holds the next position in ``bits`` and how much of ``buffer`` is used.
    """
    position, used = state[0], state[1]
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
    state[0], state[1] = position, used


@entry
def count(values: Values, width: np.float32, counts: NDArray[np.int64], bins: NDArray[np.uint32]) -> None:
    """Add ``|values|`` that are not NaN to ``counts``, lane after lane, what is above the last bin to the last bin.

    A bin is the quotient by ``width`` as a float32: what lies just below a bound is rounded up to it.

    There are several lanes because equal neighbours would wait for each other. Bins are found for a block of values,
    which vector instructions do, before any is counted; ``bins`` has room for ``COUNTED`` of them.
    """
    lane = np.uint32(counts.size // LANES)
    last = np.float32(lane - 1)
    nans = 0
    for start in range(0, values.size, COUNTED):
        block = values[start : start + COUNTED]
        for index in range(block.size):
            place = abs(block[index]) / width
            place = place if place < last else (last if place >= last else np.float32(0))
            nans += block[index] != block[index]
            bins[index] = np.uint32(np.int32(place)) + np.uint32(index & (LANES - 1)) * lane
        for index in range(block.size):
            counts[bins[index]] += 1
    counts[0] -= nans
