"""The curve that ``kl`` looks for its minimum in: what every cut of a histogram loses (reference/calibration.md 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS
from engine.jit import entry

EMPTY = 1e-9
"""Share of a bin that is empty in Q and not in P: 1e-11 to 1e-8 say the same (docs/evidence/calibration.md)."""


@entry
def divergences(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    curve: NDArray[np.float64],
) -> None:
    """KL(P || Q) for every cut from 128 bins to one less than all into ``curve``; see ``Histogram.divergences``.

    With every 128 bins more, groups become a bin larger; in between all but the last stay what they are, and what they
    add up to is known.

    Args:
        counts: shape (bins,).
        logarithms: room for those of the counts; 0 of those that are 0.
        sums, filled: zeros, shape (bins + 1,); become the sum of the counts, and the number of those that are not 0,
            before every bin.
        curve: shape (bins - 128,), changed.
    """
    tail = counts[LEVELS:].sum()
    # Counts are whole numbers: differences of their sums are exact.
    for index in range(counts.size):
        logarithms[index] = math.log(counts[index]) if counts[index] > 0 else 0.0
        sums[index + 1] = sums[index] + counts[index]
        filled[index + 1] = filled[index] + (counts[index] > 0)
    head = 0.0
    for bins in range(LEVELS, counts.size):
        size = bins // LEVELS
        if bins % LEVELS == 0:
            head = _head(counts, logarithms, sums, filled, size)
        curve[bins - LEVELS] = _divergence(counts, logarithms, sums, filled, bins, tail, head)
        tail -= counts[bins]


@entry
def _head(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    size: int,
) -> float:
    """Sum of ``c log(c / r)`` over the first 127 groups of ``size`` bins, ``r`` being the mean of the counts ``c`` of
    a group that are not 0.
    """
    total = 0.0
    for group in range(LEVELS - 1):
        start, stop = group * size, (group + 1) * size
        members = filled[stop] - filled[start]
        if members == 0:
            continue
        log_mean = math.log((sums[stop] - sums[start]) / members)
        for index in range(start, stop):
            total += counts[index] * (logarithms[index] - log_mean)
    return total


@entry
def _divergence(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    bins: int,
    tail: float,
    head: float,
) -> float:
    """KL(P || Q) of the cut after ``bins`` bins, ``tail`` being the sum of the counts behind it; infinite where
    nothing lies in front of it.

    Args:
        counts, logarithms, sums, filled: see :func:`divergences`.
        bins: where to cut.
        tail: what lies behind.
        head: of all groups but the last; see :func:`_head`.
    """
    below = sums[bins]
    if below == 0:
        return math.inf
    everything = below + tail
    log_shares = math.log(everything / below)
    last = counts[bins - 1] + tail
    start = (LEVELS - 1) * (bins // LEVELS)
    total = below - sums[start]
    if total == 0:
        # Of the last group, only the bin that what lies behind is added to has anything in P.
        lost = tail * (math.log(tail / everything) - math.log(EMPTY)) if tail > 0 else 0.0
        divergence: float = (head - sums[start] * log_shares + lost) / everything
        return divergence
    log_mean = math.log(total / (filled[bins - 1] - filled[start] + (last > 0)))
    cross = head
    for index in range(start, bins - 1):
        if counts[index] > 0:
            cross += counts[index] * (logarithms[index] - log_mean)
    if last > 0:
        cross += last * (math.log(last) - log_mean)
    divergence = cross / everything - log_shares
    return divergence
