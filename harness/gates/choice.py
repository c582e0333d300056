"""Which settings a sweep would choose, and what that choice is worth on samples that it did not look at.

Settings are compared on one half of the evaluation samples (:mod:`harness.trials.halves`); what was chosen is reported
on the other half. The best of many settings is partly the luckiest; its loss between the halves
shows how much was luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.terms import March
from harness.gates.drift import holm
from harness.gates.paired import paired_p_values
from harness.strict_yaml import StrictModel
from harness.trials.halves import selection_samples
from harness.trials.trial import TrialResult, TrialStore


class Choice(StrictModel):
    """What a sweep chooses for one model on one march.

    Attributes:
        model, march: of the trials.
        best: key of the most accurate trial on the selection half; of equal ones the fastest.
        front: keys of the Pareto points: no other setting takes at most their time (BPU and CPU) and is, beyond noise,
            as accurate on the selection half; the fastest first.
        alike: keys of the settings, ``best`` among them, that the test half cannot tell apart from ``best``.
        better: keys of the settings that are more accurate on the test half, beyond noise: the choice was luck.
            The most accurate first.
        compared: number of settings.
        samples: on which they are told apart.
        significance: error probability of all comparisons of a kind together.
    """

    model: str
    march: March
    best: str
    front: tuple[str, ...]
    alike: tuple[str, ...]
    better: tuple[str, ...] = ()
    compared: int
    samples: int
    significance: float


def choose(results: Sequence[TrialResult], store: TrialStore, significance: float = 0.05) -> tuple[Choice, ...]:
    """The choice for every model and march that has figures, in the order of the trials."""
    groups: dict[tuple[str, March, str, int], list[TrialResult]] = {}
    for result in results:
        if result.accuracy is not None:
            spec = result.spec
            groups.setdefault((spec.model, spec.march, spec.data, spec.evaluation_samples), []).append(result)
    return tuple(_choice(group, store, significance) for group in groups.values())


def _choice(group: Sequence[TrialResult], store: TrialStore, significance: float) -> Choice:
    scores = _Scores.of(group, store)
    by_choice = [(-_chosen_by(result), _time(result), index) for index, result in enumerate(group)]
    best = min(by_choice)[2]
    front = _front([index for _, _, index in sorted(by_choice, key=lambda row: (row[1], row[0], row[2]))], group)
    front = _beyond_noise(front, scores, significance)
    alike, better = _told_apart(best, scores, significance)
    return Choice(
        model=group[0].spec.model,
        march=group[0].spec.march,
        best=group[best].spec.key,
        front=tuple(group[index].spec.key for index in front),
        alike=tuple(group[index].spec.key for index in alike),
        better=tuple(group[index].spec.key for index in better),
        compared=len(group),
        samples=int(scores.test.sum()),
        significance=significance,
    )


def _front(by_time: Sequence[int], group: Sequence[TrialResult]) -> list[int]:
    """Positions of the trials that are more accurate on the selection half than all that are as fast."""
    front: list[int] = []
    for index in by_time:
        if group[index].footprint is None:  # an engine without a latency
            continue
        if not front or _chosen_by(group[index]) > _chosen_by(group[front[-1]]):
            front.append(index)
    return front


def _beyond_noise(front: Sequence[int], scores: _Scores, significance: float) -> list[int]:
    """The points of ``front`` that are better than the faster ones that are left, beyond noise.

    The error rate is shared by all comparisons (Bonferroni).
    """
    kept: list[int] = []
    for index in front:
        if not kept or scores.p_better(index, kept[-1]) < significance / (len(front) - 1):
            kept.append(index)
    return kept


def _told_apart(best: int, scores: _Scores, significance: float) -> tuple[list[int], list[int]]:
    """Positions of what the test half cannot tell apart from ``best``, itself included, and of what it finds better.

    Tests are two-sided (Holm); the most accurate comes first of what is better.
    """
    differences = scores.all[best][scores.test] - scores.all[:, scores.test]
    p = np.minimum(1.0, 2 * np.minimum(paired_p_values(differences), paired_p_values(-differences)))
    told_apart = holm({index: float(value) for index, value in enumerate(p) if index != best})
    alike = [index for index in range(len(p)) if index == best or told_apart[index] >= significance]
    lead = -differences.sum(axis=1)
    better = [index for index in range(len(p)) if index not in alike and lead[index] > 0]
    return alike, sorted(better, key=lambda index: -lead[index])


class _Scores:
    """Scores per sample of the trials of a group; larger is better.

    Attributes:
        all: shape (trials, samples).
        selection, test: which samples belong to each half; all to both where there are no halves.
    """

    def __init__(self, found: NDArray[np.float64]) -> None:
        self.all = found
        self.selection = selection_samples(found.shape[1])
        self.test = ~self.selection
        if not self.selection.any():
            self.selection = self.test

    @classmethod
    def of(cls, group: Sequence[TrialResult], store: TrialStore) -> _Scores:
        """The scores that ``store`` keeps."""
        rows = []
        for result in group:
            direction = 1.0 if result.accuracy is None or result.accuracy.higher_is_better else -1.0
            found = store.predictions(result.spec.key).get("per_sample")
            rows.append(np.zeros(0) if found is None else direction * found.astype(np.float64))
        count = min(len(row) for row in rows)  # without scores nothing can be told apart
        return cls(np.stack([row[:count] for row in rows]))

    def p_better(self, index: int, other: int) -> float:
        """Probability of so much more on the selection half if the two trials were equally good."""
        difference = self.all[index][self.selection] - self.all[other][self.selection]
        return float(paired_p_values(difference[np.newaxis])[0])


def _chosen_by(result: TrialResult) -> float:
    return result.accuracy.chosen_by if result.accuracy is not None else 0.0


def _time(result: TrialResult) -> float:
    return result.footprint.total_ms if result.footprint is not None else 0.0
