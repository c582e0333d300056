"""Which calibration samples an option looks at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


def evenly_spread(total: int, count: int) -> list[int]:
    """Up to ``count`` of ``total`` indices, the first and the last among them."""
    return sorted({round(index) for index in np.linspace(0, total - 1, min(total, count))})
