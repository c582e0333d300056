"""Threshold of least information loss: the ``kl`` method of the original (reference/calibration.md 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.statistics.bits import LEVELS
from engine.calibrate.statistics.distribution import Histogram

WINDOW = 9
"""Width of the mean filter over the curve of divergences."""

LEVEL_PER_NUMBER, LEVEL = 8e-13, (1e-7, 6e-7)
"""What a level stretch may be above the least mean: so much per number of the tensor, at least and at most.

Fitted, with room (docs/evidence/calibration.md): the original computes in float32, whose rounding makes some cut of a
stretch as low as one that is better by so little.
"""
LEVEL_CUTS = 3
"""Cuts behind the first one that a level stretch has at least."""
LEVEL_STEP = 1.4e-14
"""Neighbours in a level stretch differ by no more than this per number of the tensor; fitted too."""
_ALIKE = 1e-12
"""Means that differ by no more are equal: far above the rounding of float64, far below what counts can tell apart."""
_MALFORMED = 2.0**20
"""Divergence of a cut that no count lies below: more than any other, but finite, so that of cuts whose mean takes in
such ones the one with the fewest is the least (the reciprocals of Swin, whose counts lie in the last seven bins)."""


def kl_threshold(histogram: Histogram, *, level: bool = True) -> float:
    """The threshold whose clipped and quantised distribution is closest to the original one.

    The curve of :attr:`Histogram.divergences` is smoothed by a mean over 9 neighbours; the first minimum gives the
    threshold, the middle of its bin. So it is always below the largest value. Where all numbers but small ones have
    one magnitude no cut is better than another: it is the bin a window before the end (16 constants of ones and a mask
    of -100 in ``fpn_retina_gn``, ``vit_timm``, ``pvt`` and ``swin``; six of one number in five of 60 networks drawn
    with seed 37, on three marches; a lone large number among small ones has the first).

    Args:
        histogram: of the magnitudes.
        level: whether a level stretch counts as the least where another cut is hardly better (:data:`LEVEL`), as in
            the original.

    Returns:
        The threshold; 0 if only zeros were seen.
    """
    if histogram.width == 0.0:
        return 0.0
    if not histogram.counts[1:-1].any() and (histogram.counts[-1] > 1 or histogram.counts[0] == 0):
        return (histogram.counts.size - WINDOW + 0.5) * histogram.width
    curve = np.minimum(histogram.divergences, _MALFORMED)
    smoothed = np.convolve(curve, np.full(WINDOW, 1 / WINDOW), mode="valid")
    least = smoothed.min() + _ALIKE
    if level:
        numbers = int(histogram.counts.sum())
        above = min(max(LEVEL_PER_NUMBER * numbers, LEVEL[0]), LEVEL[1])
        cuts = _cuts_alike(smoothed, max(LEVEL_STEP * numbers, _ALIKE))
        least = least + np.where(cuts >= LEVEL_CUTS, above, 0.0)
    center = LEVELS + WINDOW // 2 + int(np.argmax(smoothed <= least))
    return (center + 0.5) * histogram.width


def _cuts_alike(smoothed: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    """How many cuts follow each until two neighbours differ by more than ``step``: int64, shape of ``smoothed``."""
    cuts = np.arange(smoothed.size)
    ends = np.where(np.append(np.abs(np.diff(smoothed)) > step, True), cuts, smoothed.size)
    last: NDArray[np.int64] = np.minimum.accumulate(ends[::-1])[::-1] - cuts
    return last
