"""The inner loops of the observers, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.bits import BLOCK, LANES, Bits, Values
from engine.jit import entry

_MAGNITUDE = np.int32(0x7FFFFFFF)
_INFINITY = np.int32(0x7F800000)


@entry
def channel_peaks(bits: Bits, peaks: Bits) -> None:  # pragma: no cover - compiled
    """Largest magnitude that is not NaN per channel of ``bits``, shape (samples, channels, n), into ``peaks``."""
    for sample in range(bits.shape[0]):
        for channel in range(bits.shape[1]):
            row = bits[sample, channel]
            peak = np.int32(0)
            for index in range(row.size):
                magnitude = row[index] & _MAGNITUDE
                magnitude = magnitude if magnitude <= _INFINITY else np.int32(0)
                peak = max(peak, magnitude)
            peaks[channel] = max(peaks[channel], peak)


@entry
def keep_larger(
    bits: Bits, position: int, cutoff: np.int32, buffer: Bits, used: int
) -> tuple[int, int]:  # pragma: no cover - compiled
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
def count(values: Values, inverse: float, counts: NDArray[np.int64]) -> None:  # pragma: no cover - compiled
    """Add ``|values|`` to the lanes of ``counts``, what is above the last bin to the last bin.

    There are several lanes because equal neighbours would wait for each other.
    """
    last = counts.shape[1] - 1
    for index in range(values.size):
        value = abs(values[index])
        if value >= np.float32(0):
            counts[index & (LANES - 1), min(int(float(value) * inverse), last)] += 1
