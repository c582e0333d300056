"""Threshold of least information loss: the ``kl`` method of the original (reference/calibration.md 2)."""

from __future__ import annotations

import numpy as np

from engine.calibrate.statistics.bits import LEVELS, WINDOW
from engine.calibrate.statistics.distribution import Histogram

_ALIKE = 1e-12
"""Means that differ by no more are equal: far above the rounding of float64, far below what counts can tell apart."""


def kl_threshold(histogram: Histogram, *, decimals: bool = True) -> float:
    """The threshold whose clipped and quantised distribution is closest to the original one: the middle of a bin.

    Args:
        histogram: of the magnitudes.
        decimals: whether divergences are those of the original (:attr:`Histogram.least_cut`), or float64
            (:func:`exact_cut`).

    Returns:
        The threshold; 0 if only zeros were seen.
    """
    if histogram.width == 0.0:
        return 0.0
    return ((histogram.least_cut if decimals else exact_cut(histogram)) + 0.5) * histogram.width


def exact_cut(histogram: Histogram) -> int:
    """The cut with the least mean of 9 :attr:`Histogram.divergences` around it, the first of equal ones.

    Where all numbers but those of the first bin have one magnitude, nothing lies below any cut: it is the last one.
    """
    means = np.convolve(histogram.divergences, np.full(WINDOW, 1 / WINDOW), mode="valid")
    first = int(np.argmax(means <= means.min() + _ALIKE))
    of_one_magnitude = not histogram.counts[1:-1].any()
    return LEVELS + WINDOW // 2 + (means.size - 1 if of_one_magnitude else first)
