"""Threshold of least information loss: the ``kl`` method of the original (CALIBRATION.md 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.distribution import Histogram
from engine.jit import entry

LEVELS = 128
"""Levels of the quantised distribution: those of an int8 magnitude."""
WINDOW = 9
"""Width of the mean filter over the curve of divergences."""
EPSILON = 1e-4
"""Count that empty bins get, taken from the others."""

STEP = 2.0**-20
"""Divergences count in whole steps of this size: that of float32 from 8 to 16, where logarithms of total counts lie.

Fitted. Cuts on a nearly level stretch of the curve are alike to the original, which takes the first: two of the 52
thresholds per tensor of EfficientNet-Lite0 show it (``onnx::Conv_576``, ``onnx::Conv_686``), and one per channel
(``onnx::Conv_934``). Which of the original's sums is that coarse is not known.
"""
_SHARE = 0.125
"""Share of a step that is added before rounding down. Fitted: 0.04 to 0.20 give all of these thresholds."""


def kl_threshold(histogram: Histogram) -> float:
    """The threshold whose clipped and quantised distribution is closest to the original one.

    For every number of bins i from 128 on, P is the histogram cut off after i bins with the rest added to its last
    bin, Q the same cut quantised to 128 levels without the rest. The curve of KL(P || Q), in whole steps
    (:data:`STEP`), is smoothed by a mean over 9 neighbours; the first minimum gives the threshold, the middle of its
    bin. So it is always below the largest value.

    Returns:
        The threshold; 0 if only zeros were seen.
    """
    counts = histogram.counts.astype(np.float64)
    if histogram.width == 0.0:
        return 0.0
    counts[0] = counts[1]
    steps = np.floor(_divergences(counts) / STEP + _SHARE)
    # Sums of whole numbers are exact, so that equal means are found equal.
    smoothed = np.convolve(steps, np.ones(WINDOW), mode="valid")
    center = LEVELS + WINDOW // 2 + int(np.argmin(smoothed))
    return (center + 0.5) * histogram.width


@entry
def _divergences(counts: NDArray[np.float64]) -> NDArray[np.float64]:  # pragma: no cover - compiled
    """KL(P || Q) for every cut from 128 bins to one less than all, float64."""
    curve = np.empty(counts.size - LEVELS)
    tail = counts[LEVELS:].sum()
    logarithms = np.array([math.log(count) if count > 0 else 0.0 for count in counts])
    # Counts are whole numbers: differences of their sums are exact.
    sums, filled = np.zeros(counts.size + 1), np.zeros(counts.size + 1, np.int64)
    for index in range(counts.size):
        sums[index + 1] = sums[index] + counts[index]
        filled[index + 1] = filled[index] + (counts[index] > 0)
    for bins in range(LEVELS, counts.size):
        curve[bins - LEVELS] = _divergence(counts, logarithms, sums, filled, bins, tail)
        tail -= counts[bins]
    return curve


@entry
def _divergence(
    counts: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    sums: NDArray[np.float64],
    filled: NDArray[np.int64],
    bins: int,
    tail: float,
) -> float:  # pragma: no cover - compiled
    """KL(P || Q) of the cut after ``bins`` bins, ``tail`` being the sum of the counts behind it.

    Within one of the 128 groups all bins where P is not empty have the same Q, so one logarithm serves them all.

    Args:
        counts: float64.
        logarithms: of the counts.
        sums, filled: sum of the counts, and number of those that are not 0, before every bin.
        bins: where to cut.
        tail: what lies behind.
    """
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
) -> int:  # pragma: no cover - compiled
    """Bins of a group where P is not empty; the last bin of a cut holds ``last`` there."""
    members: int = filled[stop] - filled[start]
    return members + (last > 0) - (counts[bins - 1] > 0) if stop == bins else members
