"""Whether the outputs of an integer model still say what those of the float model do: no labels are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.forward.compare import Distance

Array = NDArray[Any]

FLOOR_COSINE = 0.95
FLOOR_SQNR = 10.0
"""Of an output, below which the integer model is taken for broken: dB; about the noise of the floor of the cosine."""
MOST_SATURATED = 0.05
"""Share of the elements of an output that may lie beyond what the integer model can give there."""
MOST_DEAD = 0.02
"""Share of the elements of an output that may lie in a slice without information."""

_MARGIN = 0.01
"""Of the range of an output, by which an element lies beyond it."""
_VARIES = 0.01
"""Relative to the largest magnitude in a slice, by how much its values differ where they say something."""
_LEAST_SLICE = 16
"""Values of a slice below which rounding alone can make it constant."""


@dataclass(frozen=True)
class IntegerDistance(Distance):
    """How far an output of the integer model is from the float model's.

    Attributes:
        sqnr: signal to noise over all samples, dB; infinite where they are equal.
        saturated: share of elements beyond the largest or least value that the integer model gives for the sample.
        dead: share of elements in slices along one axis, such as the channel of a score, that are one value throughout
            in the integer model and vary in the float model.
        lost: those slices in words; empty where there are none.
    """

    sqnr: float
    saturated: float
    dead: float
    lost: str


class HealthMeter:
    """Takes in one output, sample by sample."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0
        self._saturated: list[float] = []
        self._ranges: list[Array] = []
        self._samples = 0

    def add(self, actual: Array, expected: Array) -> None:
        """A sample: what the integer and the float model give, of one shape, the sample along the first dimension."""
        found, wanted = (array.astype(np.float64) for array in (actual, expected))
        with np.errstate(all="ignore"):
            self._signal += float(np.square(wanted).sum())
            self._noise += float(np.square(found - wanted).sum())
            margin = _MARGIN * float(np.ptp(found)) if found.size else 0.0
            beyond = (wanted > found.max(initial=-np.inf) + margin) | (wanted < found.min(initial=np.inf) - margin)
        self._saturated.append(float(beyond.mean()) if beyond.size and margin else 0.0)
        ends = [found, found, wanted, wanted]
        if self._ranges:
            joins = (np.minimum, np.maximum, np.minimum, np.maximum)
            ends = [join(old, new) for join, old, new in zip(joins, self._ranges, ends, strict=True)]
        self._ranges = ends
        self._samples += 1

    @property
    def sqnr(self) -> float:
        """In dB."""
        if not self._noise:
            return float("inf")
        with np.errstate(divide="ignore"):
            return float(10 * np.log10(np.float64(self._signal) / self._noise))

    @property
    def saturated(self) -> float:
        """Mean share over the samples."""
        return float(np.mean(self._saturated)) if self._saturated else 0.0

    def dead(self) -> tuple[float, str]:
        """Share and description of the slices without information, along the axis that has most of them."""
        best = (0.0, "")
        for axis in range(1, self._ranges[0].ndim if self._ranges else 0):
            count = self._ranges[0].shape[axis]
            rest = tuple(k for k in range(self._ranges[0].ndim) if k != axis)
            if count < 2 or self._ranges[0].size // count * self._samples < _LEAST_SLICE:
                continue
            lowest, highest, least, most = (
                end.min(axis=rest) if index % 2 == 0 else end.max(axis=rest) for index, end in enumerate(self._ranges)
            )
            varies = most - least > _VARIES * np.maximum(np.abs(most), np.abs(least))
            lost = np.flatnonzero((lowest == highest) & varies)
            if lost.size and lost.size / count > best[0]:
                values = ", ".join(f"{value:.4g}" for value in np.unique(lowest[lost])[:3])
                reach = float(np.abs(np.stack([least[lost], most[lost]])).max())
                text = (
                    f"{lost.size} of {count} slices of axis {axis} ({_in_runs(lost.tolist())}) are constant ({values}) "
                    f"in the integer model, and reach {reach:.4g} in the float model"
                )
                best = lost.size / count, text
        return best


def _in_runs(indices: Sequence[int]) -> str:
    """``[4, 5, 6, 9]`` as ``4 to 6, 9``."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], index]
        else:
            runs.append([index])
    shown = [str(run[0]) if run[0] == run[-1] else f"{run[0]} to {run[-1]}" for run in runs[:3]]
    return ", ".join(shown) + (", …" if len(runs) > 3 else "")


def broken(found: Distance) -> tuple[str, ...]:
    """What is wrong with an output, a phrase each; empty where it is within all floors.

    Scores next to boxes of hundreds of pixels in one output are the usual reason for slices without information.
    """
    said = []
    if not found.cosine >= FLOOR_COSINE:
        said.append(f"its cosine to the float model is {found.cosine:.4f} (floor {FLOOR_COSINE})")
    if not isinstance(found, IntegerDistance):
        return tuple(said)
    if not found.sqnr >= FLOOR_SQNR:
        said.append(f"its SQNR is {found.sqnr:.1f} dB (floor {FLOOR_SQNR:g} dB)")
    if found.saturated > MOST_SATURATED:
        said.append(f"{found.saturated:.1%} of its elements lie beyond its range")
    if found.dead > MOST_DEAD:
        said.append(found.lost)
    return tuple(said)
