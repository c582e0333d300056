"""Which setting a sweep recommends, what that choice is worth on other images, and what would decide where data do not.

Settings that fail a gate or a floor take no part. Of the others the most accurate one on all images is recommended; of
those that tie, the one whose least similar output is most similar to the float model's, then the fastest. What such a
choice is worth comes from cross-fitting: on each side of many random halves the same rule chooses, and the other side
reports (:func:`harness.metrics.resampling.sides`), so that every image chooses and every image reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.chips import March
from harness.files.strict_yaml import StrictModel
from harness.gates.judge import floors
from harness.gates.paired import MetricEvidence, error_of_lead, least_by_chance, p_ahead, p_apart
from harness.gates.verdicts import TrialVerdict, Verdict
from harness.metrics.resampling import SPLITS
from harness.suites.suite import Gates
from harness.trials.trial import TrialResult, TrialStore

SAME_ACCURACY = 5e-5
"""Metrics that differ by less tie: tables show four digits."""
SAME_COSINE = 5e-6
"""Cosines likewise: five digits."""
SAME_TIME = 0.01
"""Share by which times may differ that count as equal; estimates differ from measurements by more."""

FAR = 0.1
"""A setting whose metric lies this far below the best is hopeless."""

FAILS = (Verdict.REGRESSION, Verdict.ERROR)
"""Verdicts of settings that are not recommended."""


class CrossFit(StrictModel):
    """What choosing on one half of the images is worth on the other, over all splits.

    Attributes:
        chosen: metric of what each side chooses on that side, quantised minus float, mean over the sides.
        reported: the same on the other sides.
        share: of the sides that choose the recommended setting.
        sides: number of sides.
    """

    chosen: float
    reported: float
    share: float
    sides: int


class Resolution(StrictModel):
    """What would tell settings apart that these images cannot.

    Attributes:
        difference: of the metric.
        images: that hold something to find, and find such a difference in four of five cases.
    """

    difference: float
    images: int


class Choice(StrictModel):
    """What a sweep recommends for one model on one march.

    Attributes:
        model, march: of the trials.
        best: key of the recommended setting; None where none passes.
        nearest: key of what comes nearest where none passes: to the floors, then by accuracy.
        lacks: what keeps that one from passing.
        front: keys of the Pareto points: no other setting that passes takes at most their time (BPU and CPU) and is,
            beyond noise, as accurate; the fastest first.
        alike: keys of the settings, ``best`` among them, that cannot be told apart from ``best``.
        hopeless: keys of the settings that are worse than ``best`` by :data:`FAR` or more, beyond noise.
        compared: number of settings that pass.
        failing: number of those that do not, and so take no part.
        cross_fit: what such a choice is worth; None with one setting, or too few images.
        resolution: what would tell the settings in ``alike`` apart; None where there is one.
        samples: images on which they are compared.
        significance: error probability of all comparisons of a kind together.
    """

    model: str
    march: March
    best: str | None
    nearest: str = ""
    lacks: str = ""
    front: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    hopeless: tuple[str, ...] = ()
    compared: int
    failing: int = 0
    cross_fit: CrossFit | None = None
    resolution: Resolution | None = None
    samples: int
    significance: float


def choose(
    results: Sequence[TrialResult],
    store: TrialStore,
    gates: Gates | None = None,
    verdicts: Iterable[TrialVerdict] = (),
) -> tuple[Choice, ...]:
    """The choice for every model and march that has figures, in the order of the trials.

    Args:
        results: of the sweep.
        store: has the scores.
        gates: of the suite.
        verdicts: of the gate.
    """
    gates, judged = gates or Gates(), {verdict.trial: verdict for verdict in verdicts}
    groups: dict[tuple[str, March, str, int], list[TrialResult]] = {}
    for result in results:
        if result.accuracy is not None:
            spec = result.spec
            groups.setdefault((spec.model, spec.march, spec.data, spec.evaluation_samples), []).append(result)
    return tuple(_choice(group, store, gates, judged) for group in groups.values())


def _choice(
    group: Sequence[TrialResult], store: TrialStore, gates: Gates, judged: Mapping[str, TrialVerdict]
) -> Choice:
    spec = group[0].spec
    passing = [result for result in group if not _fails(result, judged)]
    common = {
        "model": spec.model,
        "march": spec.march,
        "compared": len(passing),
        "failing": len(group) - len(passing),
        "samples": spec.evaluation_samples,
        "significance": gates.significance,
    }
    if not passing:
        nearest = group[_nearest(group, gates)]
        return Choice(best=None, nearest=nearest.spec.key, lacks=_lacks(judged[nearest.spec.id]), **common)
    settings = _Settings(passing, [_Evidences.of(result, store) for result in passing])
    best = settings.best(settings.values)
    alike = settings.alike(best, gates.significance)
    front = settings.front(best, alike, gates.significance)
    return Choice(
        best=passing[best].spec.key,
        front=tuple(passing[index].spec.key for index in front),
        alike=tuple(passing[index].spec.key for index in alike),
        hopeless=tuple(passing[index].spec.key for index in settings.hopeless(best, alike)),
        cross_fit=settings.cross_fit(best),
        resolution=settings.resolution(best, alike, gates.significance),
        **common,
    )


def _fails(result: TrialResult, judged: Mapping[str, TrialVerdict]) -> bool:
    verdict = judged.get(result.spec.id)
    return verdict is not None and verdict.verdict in FAILS


def _nearest(group: Sequence[TrialResult], gates: Gates) -> int:
    """Position of the trial that falls least short of the floors; of equal ones the most accurate."""

    def shortfall(index: int) -> tuple[float, float, float]:
        result = group[index]
        least = min((floor.share for floor in floors(result, gates)), default=1.0)
        return (-min(least, 1.0), -_value(result), -_cosine(result))

    return min(range(len(group)), key=shortfall)


def _lacks(verdict: TrialVerdict) -> str:
    return "; ".join(f"{check.name} {check.message}" for check in verdict.checks if check.verdict in FAILS)


class _Evidences:
    """MetricEvidence of a trial and of its float model, where they are kept."""

    def __init__(self, ours: MetricEvidence | None, floats: MetricEvidence | None) -> None:
        self.ours, self.floats = ours, floats

    @classmethod
    def of(cls, result: TrialResult, store: TrialStore) -> _Evidences:
        kept = store.predictions(result.spec.key)
        return cls(MetricEvidence.of(result, kept), MetricEvidence.of_float(result, kept))


class _Settings:
    """The settings of a group that pass, by position.

    Attributes:
        values: metric on all images, larger is better, shape (settings,).
    """

    def __init__(self, results: Sequence[TrialResult], evidences: Sequence[_Evidences]) -> None:
        self.values = np.array([_value(result) for result in results])
        self._cosines = np.array([_cosine(result) for result in results])
        self._times = np.array([result.footprint.total_ms if result.footprint else np.nan for result in results])
        ours = [evidence.ours for evidence in evidences if evidence.ours is not None]
        is_whole = len(ours) == len(results) and all(each.pairs_with(ours[0]) for each in ours)
        self._ours = ours if is_whole else []  # without scores nothing can be told apart
        self._floats = evidences[0].floats
        self._direction = 1 if results[0].accuracy is None else results[0].accuracy.direction

    def best(self, values: NDArray[np.float64]) -> int:
        """The position that is chosen by ``values``, shape (settings,), NaN for none."""
        tied = np.flatnonzero(values >= np.nanmax(values) - SAME_ACCURACY)
        tied = tied[self._cosines[tied] >= self._cosines[tied].max() - SAME_COSINE]
        times = np.nan_to_num(self._times[tied], nan=np.inf)
        tied = tied[times <= times.min() * (1 + SAME_TIME)] if np.isfinite(times.min()) else tied
        ranks = [(-values[index], -self._cosines[index], index) for index in tied.tolist()]
        return int(min(ranks)[2])

    def alike(self, best: int, significance: float) -> list[int]:
        """Positions of what cannot be told apart from ``best``, itself included.

        Any of the settings might have become the best by chance: from the smallest on, p values are compared with the
        least one that chance gives among all pairs of the settings that are left (:func:`least_by_chance`), or
        multiplied with the number of these pairs where that is less. What is told apart is then out (the model
        confidence set of Hansen, Lunde and Nason, Econometrica 79, 2011).
        """
        others = np.array([index for index in range(len(self.values)) if index != best], np.int64)
        if not self._ours or not len(others):
            return sorted([best, *others.tolist()])
        p = p_apart(self._ours[best], [self._ours[index] for index in others])
        order = np.argsort(p, kind="stable")
        chance = least_by_chance([self._ours[index] for index in (*others[order], best)])
        alike = [best, *others[order].tolist()]
        for smallest, least in zip(p[order].tolist(), chance, strict=False):
            reached = (1 + np.count_nonzero(least <= smallest)) / (1 + len(least))
            if min(reached, smallest * _pairs(len(alike))) >= significance:
                break
            del alike[1]
        return sorted(alike)

    def hopeless(self, best: int, alike: Sequence[int]) -> list[int]:
        """Positions of the settings that are far below ``best``; those that cannot be told apart from it are not."""
        far = np.flatnonzero(self.values <= self.values[best] - FAR)
        return [index for index in far.tolist() if index not in alike]

    def front(self, best: int, alike: Sequence[int], significance: float) -> list[int]:
        """Positions of the settings that are more accurate than all that are as fast, beyond noise.

        The error rate is shared by all comparisons (Bonferroni); what is told apart from ``best`` by :meth:`alike` is
        so here too.
        """
        kept: list[int] = []
        for index in self._rising():
            if not kept:
                kept.append(index)
            elif self._ours:
                p = float(p_ahead(self._ours[index], [self._ours[kept[-1]]])[0])
                if p < significance / (len(self.values) - 1) or (index == best and kept[-1] not in alike):
                    kept.append(index)
        return kept

    def _rising(self) -> list[int]:
        """Positions by time, each more accurate than all before; of equally fast ones the one that is chosen."""
        order = [index for index in np.argsort(self._times, kind="stable").tolist() if np.isfinite(self._times[index])]
        rising: list[int] = []
        while order:
            as_fast = [index for index in order if self._times[index] <= self._times[order[0]] * (1 + SAME_TIME)]
            values = np.full(len(self.values), np.nan)
            values[as_fast] = self.values[as_fast]
            index = self.best(values)
            if not rising or self.values[index] > self.values[rising[-1]]:
                rising.append(index)
            order = order[len(as_fast) :]
        return rising

    def cross_fit(self, best: int) -> CrossFit | None:
        """What choosing is worth on images that did not choose."""
        if len(self.values) < 2 or not self._ours or self._floats is None:
            return None
        ours, floats = np.stack([each.on_sides() for each in self._ours]), self._floats.on_sides()
        gains = ours - floats
        opposite = np.roll(gains, SPLITS, axis=1)
        known = np.flatnonzero(np.isfinite(gains).all(axis=0) & np.isfinite(opposite).all(axis=0))
        if not len(known):
            return None
        chosen = np.array([self.best(ours[:, side]) for side in known.tolist()])
        return CrossFit(
            chosen=self._direction * float(gains[chosen, known].mean()),
            reported=self._direction * float(opposite[chosen, known].mean()),
            share=float((chosen == best).mean()),
            sides=len(known),
        )

    def resolution(self, best: int, alike: Sequence[int], significance: float) -> Resolution | None:
        """How many images would tell settings apart, by the usual noise between those in ``alike``."""
        others = [self._ours[index] for index in alike if index != best] if self._ours else []
        if not others:
            return None
        images, each = self._ours[best].informative, significance / _pairs(len(self.values))
        errors = [error for other in others if (error := error_of_lead(self._ours[best], other)) > 0]
        if not errors:
            return _resolution(0.0, images, each)
        each = max(each, float(np.quantile(least_by_chance(self._ours)[0], significance)))
        return _resolution(float(np.median(errors)), images, each)


def _pairs(settings: int) -> int:
    return settings * (settings - 1) // 2


def _resolution(error: float, images: int, significance: float) -> Resolution | None:
    """The next finer difference than ``images`` tell apart, and the images that it takes.

    Args:
        error: standard error of the difference of two settings on ``images``.
        images: that hold something to find.
        significance: of one comparison.
    """
    from scipy.special import ndtri  # slow to import, though less than scipy.stats

    if not images:
        return None
    # Where no image differs, so many would have to, all for the worse (McNemar).
    fewest = math.log2(2 / significance)
    known = -float(ndtri(significance / 2) + ndtri(1 - _POWER)) * error
    told = known or fewest / images
    difference = max((step for step in _STEPS if step <= told / _FINER), default=_STEPS[-1])
    needed = images * (known / difference) ** 2 if known else fewest / difference
    return Resolution(difference=difference, images=_two_digits(needed))


_POWER = 0.8
_STEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Differences of a metric that are spoken of."""
_FINER = 2**0.5
"""Least factor to the difference that the present images tell: twice as many images."""


def _two_digits(count: float) -> int:
    step = 10 ** max(0, math.floor(math.log10(max(count, 1))) - 1)
    return int(math.ceil(count / step) * step)


def _value(result: TrialResult) -> float:
    accuracy = result.accuracy
    return 0.0 if accuracy is None else accuracy.direction * accuracy.value


def _cosine(result: TrialResult) -> float:
    return 0.0 if result.fidelity is None else result.fidelity.lowest_cosine[1]
