"""Which calibration samples an option looks at."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.data.sources import CalibrationData

Array = NDArray[Any]


def finite_samples(data: CalibrationData, indices: Iterable[int]) -> Iterator[dict[str, Array]]:
    """The samples ``indices``, one at a time, without those that hold NaN or infinity: means over them say nothing."""
    for index in indices:
        feed = data.read(index, index + 1)
        if all(np.isfinite(array).all() for array in feed.values()):
            yield feed


class SelectedData(CalibrationData):
    """Some samples of other data.

    Args:
        data: the other data.
        indices: of the samples, in the order in which they are to be read.
    """

    def __init__(self, data: CalibrationData, indices: Sequence[int]) -> None:
        self._data = data
        self._indices = tuple(indices)

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, start: int, stop: int) -> dict[str, Array]:
        """See :meth:`CalibrationData.read`."""
        found = [self._data.read(index, index + 1) for index in self._indices[start:stop]]
        return {name: np.concatenate([feed[name] for feed in found]) for name in found[0]}

    def digest(self) -> str:
        """See :meth:`CalibrationData.digest`."""
        return hashlib.sha256(f"{self._data.digest()} {self._indices}".encode()).hexdigest()


LEAST_FOR_HALVES = 4
"""Samples from which there are halves."""


def halves(total: int, count: int) -> tuple[list[int], list[int]]:
    """Indices of two halves of ``total`` samples, of up to ``count`` each: to choose on, and to report on.

    They are spread over all samples and dealt at random, always alike: any order of the samples would otherwise make
    the halves differ. Below :data:`LEAST_FOR_HALVES` samples, all are to choose on and none to report on.
    """
    spread = evenly_spread(total, 2 * count)
    if len(spread) < LEAST_FOR_HALVES:
        return spread, []
    dealt = np.random.RandomState(0).permutation(spread).tolist()
    middle = len(dealt) // 2
    return sorted(dealt[:middle]), sorted(dealt[middle:])


def evenly_spread(total: int, count: int) -> list[int]:
    """Up to ``count`` of ``total`` indices, the first and the last among them."""
    return sorted({round(index) for index in np.linspace(0, total - 1, min(total, count))})
