"""The curve that ``kl`` looks for its minimum in: what every cut of a histogram loses (reference/calibration.md 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS
from engine.jit import entry

EPSILON = 1e-4
"""Count that empty bins get, taken from the others."""
_LITTLE = 1e-4
"""Up to this share of one count, the cube of what empty bins take from a full one does not matter."""


class _Bins(NamedTuple):
    """The bins of a histogram.

    Attributes:
        counts: float64.
        logarithms: of the counts; 0 of those that are 0.
        sums, filled: sum of the counts, and number of those that are not 0, before every bin.
    """

    counts: NDArray[np.float64]
    logarithms: NDArray[np.float64]
    sums: NDArray[np.float64]
    filled: NDArray[np.int64]


@entry
def divergences(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    head: NDArray[np.float64],
    curve: NDArray[np.float64],
) -> None:
    """KL(P || Q) for every cut from 128 bins to one less than all into ``curve``; see ``Histogram.divergences``.

    With every 128 bins more, groups become a bin larger; in between all but the last stay what they are, and what they
    add up to is known but for the little that empty bins take from them.

    Args:
        counts: shape (bins,).
        logarithms: room for those of the counts.
        sums, filled: zeros, shape (bins + 1,); see :class:`_Bins`.
        head: room for what :func:`_add_up` makes, shape (TERMS,).
        curve: shape (bins - 128,), changed.
    """
    tail = counts[LEVELS:].sum()
    # Counts are whole numbers: differences of their sums are exact.
    for index in range(counts.size):
        logarithms[index] = math.log(counts[index]) if counts[index] > 0 else 0.0
        sums[index + 1] = sums[index] + counts[index]
        filled[index + 1] = filled[index] + (counts[index] > 0)
    histogram = _Bins(counts, logarithms, sums, filled)
    for bins in range(LEVELS, counts.size):
        if bins % LEVELS == 0:
            _add_up(histogram, bins // LEVELS, head)
        found = _quick_divergence(histogram, bins, tail, head)
        if math.isnan(found):
            found = _divergence(histogram, bins, tail)
        curve[bins - LEVELS] = found
        tail -= counts[bins]


@entry
def _add_up(histogram: _Bins, size: int, head: NDArray[np.float64]) -> None:
    """Sums over the first 127 groups of ``size`` bins into ``head``: those that :func:`_quick_divergence` needs.

    ``c`` being counts that are not 0, ``r`` their means in groups: of ``c log(c / r)``, ``log(c / r)``, ``1 / c``
    and ``1 / r``.
    """
    counts, logarithms, sums, filled = histogram
    head[:] = 0.0
    for group in range(LEVELS - 1):
        start, stop = group * size, (group + 1) * size
        members = filled[stop] - filled[start]
        if members == 0:
            continue
        mean = (sums[stop] - sums[start]) / members
        log_mean = math.log(mean)
        head[3] += members / mean
        for index in range(start, stop):
            if counts[index] > 0:
                ratio = logarithms[index] - log_mean
                head[0] += counts[index] * ratio
                head[1] += ratio
                head[2] += 1 / counts[index]


@entry
def _quick_divergence(histogram: _Bins, bins: int, tail: float, head: NDArray[np.float64]) -> float:
    """:func:`_divergence` from the sums ``head`` over all groups but the last; NaN where that is not exact enough.

    With ``a`` taken from every count and ``b`` from every mean, ``(c - a) (log(c - a) - log(r - b))`` is
    ``c log(c / r) - a log(c / r) - a + b c / r + a^2 / 2c + b^2 c / 2r^2 - a b / r`` but for cubes of ``a`` and ``b``,
    and the sum of ``c / r`` over a group is that of 1.
    """
    counts, logarithms, sums, filled = histogram
    last = counts[bins - 1] + tail
    start = (LEVELS - 1) * (bins // LEVELS)
    total = sums[bins] - sums[start]
    members_p = filled[bins - 1] - filled[start] + (last > 0)
    filled_p = filled[start] + members_p
    filled_q = filled[start] + (members_p if total > 0 else 0)
    if filled_p == 0 or filled_q == 0:
        return math.inf
    a = EPSILON * (bins - filled_p) / filled_p
    b = EPSILON * (bins - filled_q) / filled_q
    if max(a, b) > _LITTLE:
        return math.nan
    q = total / members_p - b if total > 0 else EPSILON
    if q <= 0:
        return math.inf
    squares = a * a / 2 * head[2] + (b * b / 2 - a * b) * head[3]
    cross = head[0] - a * head[1] + (b - a) * filled[start] + squares
    sum_p, sum_q, log_q = sums[start] - a * filled[start], sums[start] - b * filled[start], math.log(q)
    for index in range(start, bins):
        count = last if index == bins - 1 else counts[index]
        if count > 0:
            log_p = logarithms[index] if a == 0 and index < bins - 1 else math.log(count - a)
            cross += (count - a) * (log_p - log_q)
            sum_p += count - a
            sum_q += q
    empty = EPSILON * (bins - filled_p)
    divergence: float = cross / (sum_p + empty) - math.log(sum_p + empty) + math.log(sum_q + empty)
    return divergence


@entry
def _divergence(histogram: _Bins, bins: int, tail: float) -> float:
    """KL(P || Q) of the cut after ``bins`` bins, ``tail`` being the sum of the counts behind it.

    Within one of the 128 groups all bins where P is not empty have the same Q, so one logarithm serves them all.

    Args:
        histogram: all its bins.
        bins: where to cut.
        tail: what lies behind.
    """
    counts, logarithms, sums, filled = histogram
    last = counts[bins - 1] + tail
    filled_p = filled[bins - 1] + (last > 0)
    if filled_p == 0:
        return math.inf
    size = bins // LEVELS
    filled_q = 0
    for group in range(LEVELS):
        start = group * size
        stop = bins if group == LEVELS - 1 else start + size
        if sums[stop] > sums[start]:
            filled_q += _members(counts, filled, start, stop, bins, last)
    if filled_q == 0:
        return math.inf
    taken_from_p = EPSILON * (bins - filled_p) / filled_p
    taken_from_q = EPSILON * (bins - filled_q) / filled_q
    sum_p, sum_q, cross = 0.0, 0.0, 0.0
    for group in range(LEVELS):
        start = group * size
        stop = bins if group == LEVELS - 1 else start + size
        total = sums[stop] - sums[start]
        q = total / _members(counts, filled, start, stop, bins, last) - taken_from_q if total > 0 else EPSILON
        if q <= 0:
            return math.inf
        log_q = math.log(q)
        for index in range(start, stop):
            count = last if index == bins - 1 else counts[index]
            if count > 0:
                p = count - taken_from_p
                if p <= 0:
                    return math.inf
                sum_p += p
                sum_q += q
                # Most cuts have no empty bins: nothing is taken from the others, whose logarithms are known.
                log_p = logarithms[index] if p == counts[index] else math.log(p)
                cross += p * (log_p - log_q)
            else:
                sum_p += EPSILON
                sum_q += EPSILON
    return cross / sum_p - math.log(sum_p) + math.log(sum_q)


@entry
def _members(
    counts: NDArray[np.float64], filled: NDArray[np.int64], start: int, stop: int, bins: int, last: float
) -> int:
    """Bins of a group where P is not empty; the last bin of a cut holds ``last`` there."""
    members: int = filled[stop] - filled[start]
    return members + (last > 0) - (counts[bins - 1] > 0) if stop == bins else members
