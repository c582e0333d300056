"""Thresholds of least mean square error, hence of greatest signal-to-quantisation-noise ratio; not in the original."""

from __future__ import annotations

import numpy as np

from engine.calibrate.statistics.distribution import Histogram
from engine.ir import QMAX

CANDIDATES = 200
"""Thresholds tried, evenly spread between the largest magnitude and :data:`LEAST_SHARE` of it."""

LEAST_SHARE = 0.2


def mse_threshold(histogram: Histogram, maximum: float, qtype: str = "int8") -> float:
    """The threshold at which clipping and rounding together change the values least.

    Every value counts as the centre of its bin, those of the first bin as zero: that is where a Relu leaves most.

    Args:
        histogram: of ``|x|``.
        maximum: ``max|x|``.
        qtype: type of the integers.

    Returns:
        A share of ``maximum``; of equally good ones the largest. 0 where all values are zero.
    """
    if histogram.width == 0 or maximum == 0:
        return maximum
    used = np.flatnonzero(histogram.counts[1:]) + 1
    if not used.size:
        return maximum
    values = np.minimum((used + 0.5) * histogram.width, maximum)
    counts = histogram.counts[used].astype(np.float64)
    thresholds = maximum * np.linspace(1.0, LEAST_SHARE, CANDIDATES)
    steps = thresholds[:, np.newaxis] / QMAX[qtype]
    errors = np.minimum(np.rint(values / steps), QMAX[qtype]) * steps - values
    return float(thresholds[np.argmin((errors**2) @ counts)])
