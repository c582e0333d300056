"""Threshold of least information loss: the ``kl`` method of the original (reference/calibration.md 2)."""

from __future__ import annotations

import numpy as np

from engine.calibrate.statistics.bits import LEVELS
from engine.calibrate.statistics.distribution import Histogram

WINDOW = 9
"""Width of the mean filter over the curve of divergences."""

STEP = 1.2556e-6
"""Divergences count in whole steps of this size, which were fitted: the mechanism is not known.

They give all of 537 thresholds of 18 networks, exact divergences 533; docs/evidence/calibration.md says which differ
and what else was tried.
"""
_SHARE = 0.63
"""Share of a step that is added before rounding down; fitted with :data:`STEP`."""
_MALFORMED = 2.0**40
"""Steps of a cut that no count lies below: more than any divergence, but finite, so that of cuts whose mean takes in
such ones the one with the fewest is the least (the reciprocals of Swin, whose counts lie in the last seven bins)."""


def kl_threshold(histogram: Histogram, *, stepped: bool = True) -> float:
    """The threshold whose clipped and quantised distribution is closest to the original one.

    The curve of :attr:`Histogram.divergences`, in whole steps (:data:`STEP`), is smoothed by a mean over 9 neighbours;
    the first minimum gives the threshold, the middle of its bin. So it is always below the largest value. Where all
    numbers but small ones have one magnitude no cut is better than another: it is the bin a window before the end
    (16 constants of ones and a mask of -100 in ``fpn_retina_gn``, ``vit_timm``, ``pvt`` and ``swin``; six of one number
    in five of 60 networks drawn with seed 37, on three marches; a lone large number among small ones has the first).

    Args:
        histogram: of the magnitudes.
        stepped: whether divergences count in steps, as in the original, or exactly.

    Returns:
        The threshold; 0 if only zeros were seen.
    """
    if histogram.width == 0.0:
        return 0.0
    if not histogram.counts[1:-1].any() and (histogram.counts[-1] > 1 or histogram.counts[0] == 0):
        return (histogram.counts.size - WINDOW + 0.5) * histogram.width
    curve = histogram.divergences / STEP
    curve = np.minimum(np.floor(curve + _SHARE) if stepped else curve, _MALFORMED)
    # Sums of whole numbers are exact, so that equal means are found equal.
    smoothed = np.convolve(curve, np.ones(WINDOW), mode="valid")
    center = LEVELS + WINDOW // 2 + int(np.argmin(smoothed))
    return (center + 0.5) * histogram.width
