"""Streaming observers: each sees all values of a tensor once, in pieces, and keeps a bounded summary.

Magnitudes are handled as the bit patterns of non-negative float32 numbers read as int32: they order as the numbers do,
and comparing them is faster. NaN is above infinity in that order, which distinguishes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.compiled import COUNT, KEEP_LARGER, PEAKS
from engine.calibrate.statistics.bits import BLOCK, COUNTED, LANES, Bits, Values
from engine.calibrate.statistics.distribution import FLOAT32_MAX, Distribution, Histogram, order_index

Arrays = dict[str, NDArray[Any]]

BINS = 1024
"""Bins of a histogram to begin with, and of one whose range is known."""
MAX_BINS = 16384
"""When growth would need more bins than this, neighbours are merged: ``MERGED_BINS`` to twice as many are left."""
MERGED_BINS = 8192
_SAMPLE = 2048
"""Values that the first cutoff is guessed from."""
_MAGNITUDE = np.int32(0x7FFFFFFF)


class DistributionObserver:
    """Everything that calibration methods need of one tensor.

    Args:
        channels: size of dimension 1.
        elements: of the tensor in one sample, as a percentile counts them.
        samples: how many there will be in all.
        percentiles: the fractions wanted.
        histogram: a histogram to fill, or ``None``.
        scales: float32, shape (channels,): what every channel is multiplied by before it is looked at, or ``None``.
    """

    def __init__(
        self,
        channels: int,
        elements: int,
        samples: int,
        percentiles: Sequence[float] = (),
        histogram: GrowingHistogram | None = None,
        scales: Values | None = None,
    ) -> None:
        self._indices = {fraction: order_index(fraction, samples, elements) for fraction in percentiles}
        self._peaks = np.zeros(channels, np.int32)
        self._largest = LargestValues(1 + max(self._indices.values())) if percentiles else None
        self._histogram = histogram
        self._scales = None if scales is None else np.ascontiguousarray(scales, np.float32)[:, np.newaxis]

    def update(self, values: Values) -> None:
        """Take in ``values``: float32, C-contiguous, shape (samples, channels, elements per channel)."""
        if self._scales is not None:
            values = values * self._scales
        bits = values.view(np.int32)
        largest = np.zeros(1, np.int32)
        PEAKS(bits, self._peaks, largest)
        if self._largest is not None:
            self._largest.update(bits.reshape(-1))
        if self._histogram is not None:
            self._histogram.update(values.reshape(-1), _to_float(largest[0]))

    def end_group(self) -> None:
        """The values of 8 samples, or of all that are left, were taken in; see :class:`GrowingHistogram`."""
        if self._histogram is not None:
            self._histogram.end_group()

    def begin_anew(self) -> None:
        """Forget all that was seen but the largest magnitude: the histogram begins with that range."""
        self._histogram = GrowingHistogram(self.maximum)
        self._peaks[:] = 0
        if self._largest is not None:
            self._largest.restore(np.empty(0, np.int32))

    @property
    def maximum(self) -> float:
        """``max|x|``."""
        return float(self.channel_max.max(initial=np.float32(0)))

    @property
    def channel_max(self) -> Values:
        """``max|x|`` per channel, float32."""
        return np.minimum(self._peaks.view(np.float32), np.float32(FLOAT32_MAX))

    def distribution(self) -> Distribution:
        """The summary of what was seen."""
        return Distribution(
            maximum=self.maximum,
            percentiles=self._order_statistics(),
            histogram=None if self._histogram is None else self._histogram.result(),
        )

    def state(self) -> Arrays:
        """All that was seen so far, the last group being complete: what :meth:`restore` takes."""
        state: Arrays = {"peaks": self._peaks.copy()}
        if self._largest is not None:
            state["largest"] = self._largest.descending()
        if self._histogram is not None:
            state |= self._histogram.state()
        return state

    def restore(self, state: Arrays) -> None:
        """Have seen what another observer of the same arguments had seen when it gave ``state``."""
        self._peaks = state["peaks"].copy()
        if self._largest is not None:
            self._largest.restore(state["largest"])
        if self._histogram is not None:
            self._histogram.restore(state)

    def _order_statistics(self) -> Mapping[float, float]:
        if self._largest is None:
            return {}
        descending = self._largest.descending()
        if not descending.size:
            return dict.fromkeys(self._indices, 0.0)
        return {
            fraction: _to_float(descending[min(index, descending.size - 1)])
            for fraction, index in self._indices.items()
        }


class LargestValues:
    """The ``count`` largest magnitudes of a stream, exactly, in memory for twice as many."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._buffer = np.empty(2 * count + 2 * BLOCK, np.int32)
        self._used = 0
        self._cutoff = np.int32(-1)

    def update(self, bits: Bits) -> None:
        """Take in float32 bit patterns, shape (n,)."""
        if not self._used:
            self._cutoff = self._likely_cutoff(bits)
            self._take(bits)
            if self._used >= self._count:
                return
            self._used, self._cutoff = 0, np.int32(-1)
        self._take(bits)

    def _likely_cutoff(self, bits: Bits) -> np.int32:
        """What about twice as many of ``bits`` as are wanted are not below, but for one; -1 if that may be all.

        To begin with it spares keeping nearly everything, and sorting out most of that again.
        """
        sample = np.sort(bits[:: max(1, bits.size // _SAMPLE)] & _MAGNITUDE)
        rank = sample.size - 1 - math.ceil(2 * self._count * sample.size / max(1, bits.size))
        return np.int32(sample[rank] - 1 if rank >= 0 else -1)

    def _take(self, bits: Bits) -> None:
        state = np.array([0, self._used])
        while state[0] < bits.size:
            KEEP_LARGER(bits, self._buffer, state, self._cutoff)
            self._used = int(state[1])
            if self._used > self._buffer.size - BLOCK:
                self._drop_smallest()
                state[1] = self._used

    def descending(self) -> Bits:
        """The magnitudes kept, largest first; fewer than ``count`` if fewer were seen."""
        kept = np.sort(self._buffer[: self._used])[::-1]
        return kept[: self._count]

    def restore(self, descending: Bits) -> None:
        """Have seen what :meth:`descending` gave."""
        self._buffer[: descending.size] = descending
        self._used = descending.size
        self._cutoff = np.int32(descending[-1] if descending.size == self._count else -1)

    def _drop_smallest(self) -> None:
        seen = self._buffer[: self._used]
        seen.partition(self._used - self._count)
        seen[: self._count] = seen[self._used - self._count :].copy()
        self._used = self._count
        # A further value equal to the smallest one kept would change nothing.
        self._cutoff = seen[: self._count].min()


class GrowingHistogram:
    """Histogram of ``|x|`` that grows as the original's ``kl`` does (reference/calibration.md 2).

    1024 bins over the largest value of the first group of samples; the width is kept and bins are appended as the
    maximum grows; where a group would need more than 16384, neighbouring bins are merged. What lies beyond the bins,
    or on their upper end, waits for the end of its group, so that the result does not depend on how a group is cut
    into updates.

    Args:
        maximum: the largest value of the first group. Where it is 0, the values are kept until a group is complete.
    """

    def __init__(self, maximum: float = 0.0) -> None:
        self._width = maximum / BINS
        # One bin more than there are: for the values on the upper end of the last one.
        self._counts = np.zeros((LANES, BINS + 1), np.int64)
        self._beyond: list[Values] = []
        self._largest = 0.0

    def update(self, values: Values, maximum: float) -> None:
        """Take in ``values``, float32, shape (n,), the largest magnitude of which is ``maximum``."""
        self._largest = max(self._largest, maximum)
        end = self._end
        if end == 0:
            self._beyond.append(values.copy())
            return
        if maximum > end:
            magnitudes = np.abs(values)
            self._beyond.append(magnitudes[magnitudes > np.float64(end)])
            values = magnitudes[magnitudes <= np.float64(end)]
        self._count(values)

    def end_group(self) -> None:
        """The group of samples is complete: what was held back can be counted."""
        self._cover(self._largest)
        # A group of nothing but zeros has no range; its values belong to the first bin, which no method looks at.
        for values in self._beyond if self._width > 0 else ():
            self._count(values)
        self._beyond = []
        self._counts[:, -2] += self._counts[:, -1]
        self._counts[:, -1] = 0

    def result(self) -> Histogram:
        """The counts, the last group being complete."""
        self.end_group()
        return Histogram(self._counts[:, :-1].sum(axis=0), self._width)

    def state(self) -> Arrays:
        """Counts and width, the last group being complete."""
        return {"counts": self._counts.copy(), "width": np.asarray(self._width)}

    def restore(self, state: Arrays) -> None:
        """Have counted what another histogram had when it gave ``state``."""
        self._counts, self._width = state["counts"].copy(), float(state["width"])

    @property
    def _end(self) -> float:
        """Upper end of the last bin."""
        return (self._counts.shape[1] - 1) * self._width

    def _count(self, values: Values) -> None:
        COUNT(values, np.float32(self._width), self._counts.reshape(-1), np.empty(COUNTED, np.uint32))

    def _cover(self, maximum: float) -> None:
        """Have bins up to ``maximum``; what lies on their end then belongs to the next bin."""
        if maximum <= self._end:
            return
        if self._width == 0.0:
            self._width = maximum / BINS
        counts = self._counts
        needed = math.ceil(maximum / self._width)
        if needed > MAX_BINS:
            factor = needed // MERGED_BINS
            counts = _merged(counts, factor)
            self._width *= factor
            needed = math.ceil(maximum / self._width)
        self._counts = np.pad(counts, ((0, 0), (0, max(0, needed + 1 - counts.shape[1]))))


def _merged(counts: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """Sums of ``factor`` neighbouring bins each, of all if there are fewer."""
    factor = min(factor, counts.shape[1])
    bins = -(-counts.shape[1] // factor)
    padded = np.pad(counts, ((0, 0), (0, bins * factor - counts.shape[1])))
    merged: NDArray[np.int64] = padded.reshape(counts.shape[0], bins, factor).sum(axis=2)
    return merged


def _to_float(bits: int | np.integer[Any]) -> float:
    """The finite float32 nearest to the bit pattern ``bits``."""
    return min(float(np.int32(bits).view(np.float32)), FLOAT32_MAX)
