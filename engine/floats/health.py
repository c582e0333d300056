"""Whether the outputs of an integer model still say what those of the float model do: no labels are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.floats.compare import Distance, distance_of, printed_cosine

Array = NDArray[Any]

FLOOR_COSINE = 0.95
FLOOR_SQNR = 10.0
"""Signal to noise of an output in dB, below which the integer model is taken for broken; about the noise of the
floor of the cosine."""
MOST_SATURATED = 0.05
"""Share of the elements of an output that may lie beyond what the integer model can give there."""
MOST_DEAD = 0.02
"""Share of the elements of an output that may lie in a slice without information."""

_MARGIN = 0.01
"""An element lies beyond the range of an output if it does so by this share of the range."""
_VARIES = 0.01
"""Relative to the largest magnitude in a slice, by how much its values differ where they say something."""
_LEAST_SLICE = 16
"""Values of a slice below which rounding alone can make it constant."""
_LEAST_REACH = 0.01
"""Largest magnitude of a slice below which it says nothing: one percent, of a score. Classes that no sample shows reach
less in scores of a scale of their own, and are rounded to 0 there."""
_LEAST_AT_END = 2
"""Elements at an end of the range below which it is only the largest value that was met."""


@dataclass(frozen=True)
class IntegerDistance(Distance):
    """How far an output of the integer model is from the float model's.

    Attributes:
        sqnr: signal to noise over all samples, dB; infinite where they are equal.
        saturated: share of elements that have the largest or least value that the integer model gives for any sample,
            and lie beyond it in the float model.
        dead: share of elements in slices along one axis, such as the channel of a score, that are one value throughout
            in the integer model and vary in the float model.
        lost: those slices in words; empty where there are none.
    """

    sqnr: float
    saturated: float
    dead: float
    lost: str


@dataclass
class _End:
    """The largest value of an output so far, or the least one with another sign.

    Attributes:
        sign: 1 for the largest, -1 for the least.
        value: that the integer model gives, times ``sign``.
        wanted: what the float model has, of the elements that have it, times ``sign``.
    """

    sign: int
    value: float = -np.inf
    wanted: list[Array] = field(default_factory=list)

    def add(self, found: Array, wanted: Array) -> None:
        """A sample."""
        largest = float(found.max(initial=-np.inf) if self.sign > 0 else -found.min(initial=np.inf))
        if largest > self.value:
            self.value, self.wanted = largest, []
        if largest == self.value:
            self.wanted.append(self.sign * wanted[found == self.sign * largest])

    def beyond(self, margin: float) -> int:
        """How many of the elements with this value are further than ``margin`` beyond it in the float model."""
        at_end = np.concatenate(self.wanted) if self.wanted else np.empty(0)
        return int((at_end > self.value + margin).sum()) if at_end.size >= _LEAST_AT_END else 0


class HealthMeter:
    """Takes in one output, sample by sample."""

    def __init__(self) -> None:
        self._signal = self._noise = 0.0
        self._elements = 0
        self._distances: list[Distance] = []
        self._upper, self._lower = _End(1), _End(-1)
        self._ranges: list[Array] = []

    def add(self, actual: Array, expected: Array) -> None:
        """A sample: what the integer and the float model give, of one shape, the sample along the first dimension."""
        found, wanted = (np.asarray(array, np.float64) for array in (actual, expected))
        self._elements += found.size
        with np.errstate(all="ignore"):
            error = found - wanted
            self._distances.append(distance_of(error, printed_cosine(actual, expected)))
            self._signal += float(np.square(wanted).sum())
            self._noise += float(np.square(error).sum())
            self._upper.add(found, wanted)
            self._lower.add(found, wanted)
        ends = (found, found, wanted, wanted)
        if not self._ranges:
            self._ranges = [np.array(end) for end in ends]
        for join, old, new in zip((np.minimum, np.maximum, np.minimum, np.maximum), self._ranges, ends, strict=True):
            join(old, new, out=old)

    def distance(self) -> IntegerDistance:
        """Means over the samples of cosine, L1 and L2, the largest Chebyshev distance, and the rest over all of them.

        Raises:
            ValueError: there was no sample.
        """
        dead, lost = self.dead()
        return IntegerDistance(
            cosine=float(np.mean([each.cosine for each in self._distances])),
            l1=float(np.mean([each.l1 for each in self._distances])),
            l2=float(np.mean([each.l2 for each in self._distances])),
            chebyshev=max(each.chebyshev for each in self._distances),
            sqnr=self.sqnr,
            saturated=self.saturated,
            dead=dead,
            lost=lost,
        )

    @property
    def sqnr(self) -> float:
        """In dB; NaN where a value is NaN or infinite."""
        if not self._noise:
            return float("inf")
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(10 * np.log10(np.float64(self._signal) / self._noise))

    @property
    def saturated(self) -> float:
        """Share of the elements."""
        reach = self._upper.value + self._lower.value
        beyond = sum(end.beyond(_MARGIN * reach) for end in (self._upper, self._lower)) if reach > 0 else 0
        return beyond / self._elements if self._elements else 0.0

    def dead(self) -> tuple[float, str]:
        """Share and description of the slices without information, along the axis that has most of them."""
        best = (0.0, "")
        for axis in range(1, self._ranges[0].ndim if self._ranges else 0):
            count = self._ranges[0].shape[axis]
            rest = tuple(k for k in range(self._ranges[0].ndim) if k != axis)
            if count < 2 or self._ranges[0].size // count * len(self._distances) < _LEAST_SLICE:
                continue
            lowest, highest, least, most = (
                end.min(axis=rest) if index % 2 == 0 else end.max(axis=rest) for index, end in enumerate(self._ranges)
            )
            largest = np.maximum(np.abs(most), np.abs(least))
            with np.errstate(invalid="ignore"):  # the same infinity throughout
                says = (most - least > _VARIES * largest) & (largest >= _LEAST_REACH)
            lost = np.flatnonzero((lowest == highest) & says)
            if lost.size and lost.size / count > best[0]:
                values = ", ".join(f"{value:.4g}" for value in np.unique(lowest[lost])[:3])
                reach = float(largest[lost].max())
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
    if math.isnan(found.cosine):
        return ("it, or that of the float model, holds NaN or infinity",)
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
