"""Drift since the anchor: how much of it is real, and in which night it began.

Significance is that of all nights together. Each night whose predictions differ from those of all nights before is one
more look at the same images; the k-th look may spend 1 / (k (k + 1)) of the error probability, shares that add up to
one. So the probability that any night ever calls equal models different is at most the gate's significance, whatever
the nights have in common. Over the trials of a night p values are corrected by Holm's method.

Where a change began is found over all nights: the fewest steps whose gain in squared error is worth their number
(PELT with a penalty of 3 log(n) variances of the noise between neighbouring nights).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.gates.nights import WATCHED, Night

K = TypeVar("K", str, int)

_PENALTY = 3.0
"""Variances of the noise, times log(nights), that one more step must save."""
_NORMAL_MAD = 0.6745
"""Median of the absolute values of a standard normal variable."""
_USUAL = 3.0
"""Standard deviations between neighbouring nights beyond which a difference is a jump rather than noise."""
_RELATIVE_NOISE = 1e-9
"""Least noise, as a share of the largest figure: figures are kept with nine digits."""


@dataclass(frozen=True)
class LevelChange:
    """A change of level.

    Attributes:
        night: index of the first night at the new level.
        before, after: means of the levels.
    """

    night: int
    before: float
    after: float


@dataclass(frozen=True)
class Drift:
    """One figure of one trial over the nights.

    Attributes:
        trial: id.
        figure: name.
        values: per night; NaN where the trial has none.
        anchor: what the anchor has; None without one.
        p: of accuracy, corrected for all looks and trials; None where nothing was paired.
        steps: changes of level, the first one first.
    """

    trial: str
    figure: str
    values: NDArray[np.float64]
    anchor: float | None
    p: float | None
    steps: tuple[LevelChange, ...]

    @property
    def change(self) -> float | None:
        """Last figure minus the anchor's, in the figure's own unit."""
        known = self.values[np.isfinite(self.values)]
        return None if self.anchor is None or not len(known) else float(known[-1] - self.anchor)

    @property
    def is_loss(self) -> bool:
        """Whether the last figure is worse than the anchor's."""
        return (self.change or 0.0) * WATCHED[self.figure] < -_RELATIVE_NOISE

    @property
    def began(self) -> int | None:
        """Index of the night in which the loss began: the first step down after which no level is as good as before.

        None where the last figure is no loss, or where it was there from the first night.
        """
        if not self.is_loss:
            return None
        direction = WATCHED[self.figure]
        levels = [step.after for step in self.steps]
        for index, step in enumerate(self.steps):
            if all((level - step.before) * direction < 0 for level in levels[index:]):
                return step.night
        return None


def drifts(nights: Sequence[Night]) -> list[Drift]:
    """Drift of every watched figure of every trial of the last night, the greatest losses of accuracy first."""
    if not nights:
        return []
    last = nights[-1]
    nights = [night for night in nights if night.version == last.version]
    corrected = _corrected(nights)
    found = []
    for trial, now in last.trials.items():
        for figure in now.figures:
            values = np.array(
                [
                    night.trials[trial].figures.get(figure, np.nan) if trial in night.trials else np.nan
                    for night in nights
                ]
            )
            anchor = last.anchor.get(figure, {}).get(trial)
            p = corrected.get(trial) if figure == "accuracy.quantized" else None
            found.append(Drift(trial, figure, values, anchor, p, steps(values)))
    return sorted(found, key=lambda drift: (drift.p is None, drift.p or 0.0))


def looks(nights: Sequence[Night], trial: str) -> int:
    """How many different predictions of ``trial`` the nights have compared with the anchor."""
    return len({night.trials[trial].predictions for night in nights if trial in night.trials})


def _corrected(nights: Sequence[Night]) -> dict[str, float]:
    """p values of the last night by trial, for all looks so far (see the module) and all trials (Holm)."""
    last = nights[-1].trials
    spent = {}
    for trial, night in last.items():
        if night.p is not None:
            count = looks(nights, trial)
            spent[trial] = min(1.0, night.p * count * (count + 1))
    return holm(spent)


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """p values corrected for their number by Holm's method, by name."""
    ordered = sorted(p_values, key=lambda name: p_values[name])
    largest = 0.0
    found: dict[K, float] = {}
    for rank, name in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * p_values[name]))
        found[name] = largest
    return found


def steps(values: NDArray[np.float64]) -> tuple[LevelChange, ...]:
    """Changes of level in a series; missing values (NaN) are passed over.

    Args:
        values: per night, shape (nights,).
    """
    known = np.flatnonzero(np.isfinite(values))
    series = values[known]
    if len(series) < 2 or np.ptp(series) <= _RELATIVE_NOISE * np.abs(series).max():
        return ()
    import ruptures  # slow to import

    between = np.diff(series)
    usual = _USUAL * np.median(np.abs(between)) / _NORMAL_MAD
    noise = np.sqrt((np.clip(between, -usual, usual) ** 2).mean() / 2)  # jumps count as no more than usual noise
    floor = _RELATIVE_NOISE * np.abs(series).max()
    penalty = _PENALTY * np.log(len(series)) * max(noise, floor) ** 2
    search = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(series.reshape(-1, 1))
    ends = [0, *search.predict(pen=penalty)]
    means = [float(series[start:stop].mean()) for start, stop in pairwise(ends)]
    return tuple(
        LevelChange(int(known[start]), before, after)
        for start, (before, after) in zip(ends[1:-1], pairwise(means), strict=True)
    )
