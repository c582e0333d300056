"""The curve that ``kl`` looks for its minimum in: what every cut of a histogram loses (reference/calibration.md 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS, WINDOW
from engine.jit import entry

EMPTY = np.float32(5e-10)
"""Share of a bin that is empty in P or Q; full bins give up as much together. With the next float32 up or down, 9 of
142 tensors have another cut than the original gave them (docs/evidence/calibration.md)."""
DECIMALS = 1e6
"""The original's divergences are whole numbers of its reciprocal: what is below is cut off."""
APART = 2e-3
"""Float32 sums of up to 16,384 numbers, and what :data:`EMPTY` does, change a divergence of 1 by far less."""


@entry
def divergences(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    curve: NDArray[np.float64],
) -> None:
    """KL(P || Q) for every cut from 128 bins to one less than all into ``curve``, in float64 and without what full bins
    give up to empty ones; see ``Histogram.divergences``.

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
    for index in range(counts.size):
        logarithms[index] = math.log(counts[index]) if counts[index] > 0 else 0.0
    _add_up(counts, sums, filled)
    head = 0.0
    for bins in range(LEVELS, counts.size):
        size = bins // LEVELS
        if bins % LEVELS == 0:
            head = _head(counts, logarithms, sums, filled, size)
        curve[bins - LEVELS] = _divergence(counts, logarithms, sums, filled, bins, tail, head)
        tail -= counts[bins]


@entry
def least_cut(
    counts: NDArray[np.float64],
    curve: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    rounded: NDArray[np.float32],
    shares: NDArray[np.float32],
    left: NDArray[np.float32],
    least: NDArray[np.int64],
) -> None:
    """The cut with the least divergence into ``least``, as the original's float32 arithmetic has it.

    A mean over :data:`WINDOW` divergences stands for the cut in its middle. The first of equal ones counts, but a mean
    is compared in float64 with the least before it in float32. The first divergence, with all its digits, stands for
    the first cut. Means that are :data:`APART` in float64 are not computed again.

    Args:
        counts, sums, filled: see :func:`divergences`.
        curve: what that wrote.
        rounded: room for divergences, shape (bins - 128,).
        shares, left: room for what :func:`_hand_on` finds, shape (bins,).
        least: shape (1,), becomes the number of bins of the cut.
    """
    _add_up(counts, sums, filled)
    _hand_on(counts, sums, shares, left)
    windows = curve.size - WINDOW + 1
    bound = curve[0]
    for window in range(windows):
        bound = min(bound, _mean(curve, window))
    bound += APART * max(1.0, bound)
    rounded[:] = np.nan
    lowest = _rounded_divergence(counts, sums, filled, shares, left, LEVELS)
    least[0] = LEVELS
    for window in range(windows):
        if _mean(curve, window) > bound:
            continue
        for cut in range(window, window + WINDOW):
            if np.isnan(rounded[cut]):
                exact = _rounded_divergence(counts, sums, filled, shares, left, LEVELS + cut)
                rounded[cut] = np.float32(np.floor(np.float64(exact) * DECIMALS) / DECIMALS)
        mean = _mean(rounded, window)
        if mean < np.float64(lowest):
            lowest = np.float32(mean)
            least[0] = LEVELS + window + WINDOW // 2


@entry
def _mean(divergences: NDArray[np.floating], window: int) -> float:
    """Of :data:`WINDOW` divergences from ``window`` on, in float64."""
    total = 0.0
    for cut in range(window, window + WINDOW):
        total += np.float64(divergences[cut])
    return total / WINDOW


@entry
def _add_up(counts: NDArray[np.float64], sums: NDArray[np.float64], filled: NDArray[np.int64]) -> None:
    """The sum of the counts before every bin, and the number of those that are not 0: both begin with 0.

    Counts are whole numbers, so that differences of their sums are exact.
    """
    for index in range(counts.size):
        sums[index + 1] = sums[index] + counts[index]
        filled[index + 1] = filled[index] + (counts[index] > 0)


@entry
def _hand_on(
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    shares: NDArray[np.float32],
    left: NDArray[np.float32],
) -> None:
    """The shares of P, which the original has in float32 and hands on from one cut to the next.

    It begins one cut before the first that counts, with :data:`LEVELS` bins less one: the last bin of that holds the
    float32 sum of its own share and of what lies behind, a float64 sum of float32 shares rounded to float32. Every cut
    hands on what is left of that without the share of its last bin, which keeps the difference: a float32 sum and a
    float32 difference, so that neither is the quotient of counts that it stands for.

    Args:
        counts, sums: see :func:`divergences`.
        shares: becomes what every bin holds in the cuts that do not end with it.
        left: becomes what every bin from the last of that first cut on holds in the cut that ends with it.
    """
    everything = np.float32(sums[counts.size])
    behind = 0.0
    for index in range(counts.size):
        shares[index] = np.float32(counts[index]) / everything
        if index >= LEVELS - 1:
            behind += np.float64(shares[index])
    left[LEVELS - 2] = shares[LEVELS - 2] + np.float32(behind)
    for index in range(LEVELS - 2, counts.size - 1):
        left[index + 1] = left[index] - shares[index]
        shares[index] = left[index] - left[index + 1]


@entry
def _rounded_divergence(
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    shares: NDArray[np.float32],
    left: NDArray[np.float32],
    bins: int,
) -> np.float32:
    """KL(P || Q) of the cut after ``bins`` bins with every step in float32, one bin after the other.

    Empty bins have a share of :data:`EMPTY`, which full ones give up alike, in P and in Q. Where nothing lies in front
    of the cut, every bin of Q is empty. NaN, which is never the least, where a full bin has less than it gives up: a
    few numbers of many millions. A bin that holds nothing in float32, as one number of a hundred millions may where
    half of them lie behind, adds nothing (not asked). The logarithm is the C library's.
    """
    below = sums[bins]
    tail = sums[counts.size] - below
    last = counts[bins - 1] + tail
    full = filled[bins - 1] + (last > 0)
    size = bins // LEVELS
    start = (LEVELS - 1) * size
    # What lies behind is added to a bin of P alone: it is empty in Q where its whole group is.
    full_in_q = full - (sums[bins] == sums[start] and last > 0)
    taken = EMPTY * np.float32(bins - full) / np.float32(full)
    taken_in_q = EMPTY * np.float32(bins - full_in_q) / np.float32(full_in_q) if full_in_q > 0 else np.float32(0)
    total = np.float32(0)
    for group in range(LEVELS):
        first = group * size
        end = bins if group == LEVELS - 1 else first + size
        members = filled[end] - filled[first]
        if end == bins and counts[bins - 1] == 0 and last > 0:
            members += 1
        if members == 0:
            continue
        inside = sums[end] - sums[first]
        share = EMPTY
        if inside > 0:
            share = np.float32(inside) / np.float32(members) / np.float32(below) - taken_in_q
        for index in range(first, end):
            count = last if index == bins - 1 else counts[index]
            if count > 0:
                held = left[index] if index == bins - 1 else shares[index]
                if held == 0:
                    continue
                p = held - taken
                if p <= 0 or share <= 0:
                    return np.float32(np.nan)
                total += p * np.float32(math.log(p / share))
    return total


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
    """KL(P || Q) of the cut after ``bins`` bins, ``tail`` being the sum of the counts behind it.

    Args:
        counts, logarithms, sums, filled: see :func:`divergences`.
        bins: where to cut.
        tail: what lies behind.
        head: of all groups but the last; see :func:`_head`.
    """
    below = sums[bins]
    if below == 0:
        return -math.log(np.float64(EMPTY))
    everything = below + tail
    log_shares = math.log(everything / below)
    last = counts[bins - 1] + tail
    start = (LEVELS - 1) * (bins // LEVELS)
    total = below - sums[start]
    if total == 0:
        # Of the last group, only the bin that what lies behind is added to has anything in P.
        lost = tail * (math.log(tail / everything) - math.log(np.float64(EMPTY))) if tail > 0 else 0.0
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
