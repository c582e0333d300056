"""What calibration keeps of the values of one tensor, whatever the number of samples: the input of all methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.compiled import DIVERGENCES, LEAST_CUT
from engine.calibrate.statistics.bits import LEVELS
from engine.errors import ConfigError

MIN_PERCENTILE = 0.5
"""Smaller values of ``max_percentile`` count as this one (reference/calibration.md 1)."""

FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of ``|x|``.

    Attributes:
        counts: int64, shape (bins,); bin i holds the numbers whose quotient ``|x| / width``, a float32, is in
            ``[i, i + 1)``, the last one its upper end too.
        width: of one bin; 0 while only zeros were seen.
    """

    counts: NDArray[np.int64]
    width: float

    @cached_property
    def divergences(self) -> NDArray[np.float64]:
        """What every cut loses: KL(P || Q), float64, shape (bins - 128,), computed once.

        For every number of bins i from 128 on, P is the histogram cut off after i bins with the rest added to its last
        bin, Q the same cut quantised to 128 levels without the rest; a bin that is empty in Q alone has a share of
        5e-10 there, and empty bins take nothing from the others. The first bin counts as empty: 22 thresholds of
        YOLOv8, MobileNetV2 and EfficientNet tell that from a first bin like the second.
        """
        counts = self._counts_behind_the_first
        curve = np.empty(counts.size - LEVELS)
        DIVERGENCES(counts, np.empty_like(counts), *self._sums, curve)
        return curve

    @cached_property
    def least_cut(self) -> int:
        """The number of bins of the cut that loses least, in the arithmetic of the original, computed once.

        Its divergences are float32, empty bins of P and Q take their share from the others, and what is behind six
        decimals is cut off (docs/evidence/calibration.md). A cut stands for the mean over 9 divergences with it in the
        middle, the first one for its own.
        """
        least = np.empty(1, np.int64)
        rounded = np.empty(self.divergences.size, np.float32)
        shares, left = np.empty((2, self.counts.size), np.float32)
        LEAST_CUT(self._counts_behind_the_first, self.divergences, *self._sums, rounded, shares, left, least)
        return int(least[0])

    @property
    def _counts_behind_the_first(self) -> NDArray[np.float64]:
        counts = self.counts.astype(np.float64)
        counts[0] = 0.0
        return counts

    @property
    def _sums(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Room for what adds up in front of every bin."""
        return np.zeros(self.counts.size + 1), np.zeros(self.counts.size + 1, np.int64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.width == other.width and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.width, self.counts.tobytes()))


@dataclass(frozen=True)
class Distribution:
    """The values of one tensor over all calibration samples.

    Attributes:
        maximum: ``max|x|``; NaN is ignored, infinity counts as the largest float32.
        percentiles: per ``max_percentile`` that was requested, the order statistic of ``|x|`` (:func:`order_index`).
        histogram: of ``|x|``, or ``None`` if none was requested.
    """

    maximum: float
    percentiles: Mapping[float, float]
    histogram: Histogram | None = None

    def percentile(self, fraction: float) -> float:
        """The order statistic of ``fraction``.

        Raises:
            ConfigError: it was not collected.
        """
        fraction = clamp_percentile(fraction)
        if fraction == 1.0:
            return self.maximum
        if fraction not in self.percentiles:
            raise ConfigError(
                f"max_percentile {fraction} was not collected; the statistics hold {sorted([*self.percentiles, 1.0])}"
            )
        return self.percentiles[fraction]


def clamp_percentile(fraction: float) -> float:
    """``max_percentile`` as it takes effect.

    Raises:
        ConfigError: it is not between 0 and 1.
    """
    if not 0.0 <= fraction <= 1.0:
        raise ConfigError(f"Invalid max_percentile: {fraction}, avaliable range: 0~1")
    return max(fraction, MIN_PERCENTILE)


def order_index(fraction: float, samples: int, elements: int) -> int:
    """Which of all ``|x|``, sorted descending, is the threshold of percentile ``fraction``.

    The original takes the percentile of one sample beyond which as many values lie as beyond that of all, as float32:
    of 4 samples of 20,000 values each the largest 0.00005 are 3 (``1 - float32(0.9998)`` is below 0.0002), of 8 of
    10,000 they are 4 (docs/evidence/calibration.md, percentiles of all samples).

    Args:
        fraction: ``max_percentile``, 0..1.
        samples: number of samples.
        elements: of the tensor in one sample.

    Returns:
        0-based index: ``int((1 - p) * elements)`` with ``p = float32(max(1 - (1 - fraction) * samples, 1 / 2))``.
    """
    share = 1.0 - (1.0 - clamp_percentile(fraction)) * samples
    of_sample = float(np.float32(max(share, MIN_PERCENTILE)))
    return int((1.0 - of_sample) * elements)


def as_channels(values: NDArray[Any]) -> NDArray[Any]:
    """``values``, shape (samples, channels, ...), as (samples, channels, elements per channel)."""
    channels = values.shape[1] if values.ndim > 1 else 1
    return values.reshape(values.shape[0], channels, -1)
