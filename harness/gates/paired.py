"""Tests on the same images, before and after: the metric of one model against that of another, or of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.gates.baseline import ACCURACY, SCORE_DIGITS, BaselineTrial
from harness.metrics.resampling import draws_of, sides, sides_of, spread
from harness.trials.figures import Z95
from harness.trials.trial import TrialResult

_PERMUTATIONS = 10_000
_AT_ONCE = 1_000
"""Sign changes drawn at a time; bounds memory."""

_SEED = 0


@dataclass(frozen=True)
class MetricEvidence:
    """What is known of a model's metric on the images of a split; larger is better, of an error the sign is changed.

    Attributes:
        value: the metric; where it is the mean of ``per_sample``, that.
        per_sample: float64, shape (images,): score of each image.
        resampled: the metric on the shared resamples (:mod:`harness.metrics.resampling`), float64, shape (rows,); None
            where it is the mean of ``per_sample``. At least the draws are there.
        informative: images that hold something to find.
    """

    value: float
    per_sample: NDArray[np.float64]
    resampled: NDArray[np.float64] | None
    informative: int

    @classmethod
    def of(cls, result: TrialResult, predictions: Mapping[str, NDArray[Any]]) -> MetricEvidence | None:
        """The evidence of a trial's quantised model; None where its scores are not kept."""
        scores, accuracy = predictions.get("per_sample"), result.accuracy
        if scores is None or accuracy is None:
            return None
        return cls._signed(
            accuracy.value, scores, predictions.get("resampled"), accuracy.informative, accuracy.direction
        )

    @classmethod
    def of_float(cls, result: TrialResult, predictions: Mapping[str, NDArray[Any]]) -> MetricEvidence | None:
        """The evidence of a trial's float model; None where its scores are not kept."""
        scores, accuracy = predictions.get("float_per_sample"), result.accuracy
        if scores is None or accuracy is None:
            return None
        values = predictions.get("float_resampled")
        return cls._signed(accuracy.float_value, scores, values, accuracy.informative, accuracy.direction)

    @classmethod
    def of_accepted(cls, accepted: BaselineTrial, result: TrialResult) -> MetricEvidence | None:
        """Evidence from what a baseline keeps of the trial of ``result``; None where it was scored on other images."""
        reference, accuracy = accepted.figures.get(ACCURACY), result.accuracy
        if accepted.scores is None or reference is None or accuracy is None or accepted.data != result.spec.data:
            return None
        values = None if accepted.resampled is None else accepted.resampled.array()
        return cls._signed(reference.value, accepted.scores.array(), values, accuracy.informative, accuracy.direction)

    @classmethod
    def _signed(
        cls,
        value: float,
        scores: NDArray[Any],
        resampled: NDArray[Any] | None,
        informative: int | None,
        direction: int,
    ) -> MetricEvidence:
        values = None if resampled is None else direction * resampled.astype(np.float64)
        signed = direction * scores.astype(np.float64)
        value = float(signed.mean()) if values is None else direction * value
        return cls(value, signed, values, len(scores) if informative is None else informative)

    def pairs_with(self, other: MetricEvidence) -> bool:
        """Whether both are of as many images and of one kind; scores of older versions are of another kind."""
        return len(self.per_sample) == len(other.per_sample) and (self.resampled is None) == (other.resampled is None)

    def changed_from(self, before: MetricEvidence) -> tuple[int, int]:
        """How many images score better, and how many worse, than in ``before``."""
        differences = self.per_sample - before.per_sample
        return int((differences > 0).sum()), int((differences < 0).sum())

    def on_sides(self) -> NDArray[np.float64]:
        """The metric on the sides of all splits, shape (sides,); NaN where it is not defined."""
        if self.resampled is not None:
            return sides_of(self.resampled)
        chosen = sides(len(self.per_sample))
        return np.asarray(chosen @ self.per_sample / np.maximum(chosen.sum(axis=1), 1), np.float64)


def p_ahead(first: MetricEvidence, others: Sequence[MetricEvidence]) -> NDArray[np.float64]:
    """Probability of so great a lead of ``first`` over each of ``others`` if both were equally good, shape (others,).

    One-sided. Of a mean of scores per image :func:`paired_p_values`. Of any other metric from its paired bootstrap: the
    lead in units of its standard error, by Student's t for the images that hold something to find, and no less than
    if all of these had decided alike by chance.
    """
    if not others:
        return np.ones(0)
    if first.resampled is None:
        return paired_p_values(first.per_sample - np.stack([other.per_sample for other in others]))
    from scipy.special import stdtr  # slow to import, though less than scipy.stats

    leads = np.array([first.value - other.value for other in others])
    errors = np.array([error_of_lead(first, other) for other in others])
    found = np.where(leads > _NO_LEAD, 0.0, 1.0)
    known = errors > 0
    found[known] = stdtr(max(1, first.informative - 1), -leads[known] / errors[known])
    return np.asarray(np.clip(found, 0.5 ** max(1, first.informative), 1.0), np.float64)


_NO_LEAD = 1e-9
"""Figures are kept with nine digits: less is no difference."""


def p_apart(first: MetricEvidence, others: Sequence[MetricEvidence]) -> NDArray[np.float64]:
    """Probability of so great a difference, in either direction, from each of ``others``, shape (others,)."""
    ahead, behind = p_ahead(first, others), _p_behind(first, others)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(ahead, behind)), np.float64)


def _p_behind(first: MetricEvidence, others: Sequence[MetricEvidence]) -> NDArray[np.float64]:
    if first.resampled is not None or not others:
        return np.array([p_ahead(other, [first])[0] for other in others])
    return paired_p_values(np.stack([other.per_sample for other in others]) - first.per_sample)


def least_by_chance(models: Sequence[MetricEvidence]) -> NDArray[np.float64]:
    """Least two-sided p value among all pairs of models, drawn 10,000 times as if all were equally good.

    The leads of all pairs are drawn together, as normal numbers with the covariances of the resamples or of the scores
    per image: leads that rise and fall together, such as those over two models that fail on the same images, are
    nearly one comparison (Hothorn, Bretz and Westfall, Simultaneous Inference in General Parametric Models, Biometrical
    Journal 50, 2008). Pairs whose lead is the same on all resamples count as independent.

    Args:
        models: at least one, which pair with each other.

    Returns:
        Shape (models, draws): row ``n`` is of ``models[n:]``; 1 where no two of these differ.
    """
    from scipy.special import ndtr  # slow to import, though less than scipy.stats

    spreads = np.asarray(np.linalg.qr(_deviations(models).T, mode="r"), np.float64)
    values, random = np.array([model.value for model in models]), np.random.RandomState(_SEED)
    drawn = random.standard_normal((_PERMUTATIONS, len(spreads))) @ spreads
    greatest = np.zeros((len(models), _PERMUTATIONS))
    for first in range(len(models) - 2, -1, -1):
        sizes = np.linalg.norm(spreads[:, [first]] - spreads[:, first + 1 :], axis=0)
        differs = sizes > _NO_LEAD
        leads = (drawn[:, [first]] - drawn[:, first + 1 :])[:, differs] / sizes[differs]
        unknown = np.count_nonzero(~differs & (np.abs(values[first] - values[first + 1 :]) > _NO_LEAD))
        leads = np.concatenate([leads, random.standard_normal((_PERMUTATIONS, unknown))], axis=1)
        greatest[first] = np.maximum(greatest[first + 1], np.abs(leads).max(axis=1, initial=0.0))
    return np.asarray(2 * ndtr(-greatest), np.float64)


def _deviations(models: Sequence[MetricEvidence]) -> NDArray[np.float64]:
    """Deviations of each model from the first, shape (models, rows).

    Of values on resamples around their mean; else of the scores per image, whose signs chance decides.
    """
    if models[0].resampled is None:
        return np.stack([model.per_sample - models[0].per_sample for model in models])
    draws = np.stack([draws_of(model.resampled) for model in models if model.resampled is not None])
    leads = (draws - draws[0])[:, np.isfinite(draws).all(axis=0)]
    return (
        np.asarray(leads - leads.mean(axis=1, keepdims=True), np.float64) if leads.size else np.zeros((len(leads), 1))
    )


def error_of_lead(first: MetricEvidence, other: MetricEvidence) -> float:
    """Standard error of ``first.value - other.value`` for other images, from the paired bootstrap or of the mean."""
    if first.resampled is not None and other.resampled is not None:
        return spread(draws_of(first.resampled) - draws_of(other.resampled))
    return _error_of_mean(first.per_sample - other.per_sample)


def interval_of_lead(first: MetricEvidence, other: MetricEvidence) -> tuple[float, float]:
    """The 95 % confidence interval of ``first.value - other.value``: 1.96 standard errors around it.

    Of scores 0 and 1 that is Wald's interval for the difference of two paired proportions.
    """
    lead, error = first.value - other.value, error_of_lead(first, other)
    return lead - Z95 * error, lead + Z95 * error


def _error_of_mean(differences: NDArray[np.float64]) -> float:
    return float(differences.std(ddof=1)) / len(differences) ** 0.5 if len(differences) > 1 else 0.0


def paired_p_value(differences: NDArray[np.float64]) -> float:
    """Probability of a mean at least this great if every difference might as well have had the other sign.

    One-sided. Exact (McNemar, binomial) where all differences other than 0 are equally large; else from 10,000 random
    sign changes, the same ones every time, or by Hoeffding's bound where that is less.

    Args:
        differences: per sample, shape (samples,).
    """
    return float(paired_p_values(differences[np.newaxis])[0])


def paired_p_values(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """:func:`paired_p_value` of every row, shape (rows,).

    Args:
        differences: per row and sample, shape (rows, samples).
    """
    # What a baseline's rounding leaves is no change.
    changed = np.where(np.abs(differences) > 0.5 * 10**-SCORE_DIGITS, differences, 0.0)
    magnitudes, counts = np.abs(changed), np.count_nonzero(changed, axis=1)
    greatest = magnitudes.max(axis=1, initial=0.0)
    alike = greatest - np.where(magnitudes > 0, magnitudes, np.inf).min(axis=1, initial=np.inf) < 1e-12
    p = np.ones(len(changed))
    exact = alike & (counts > 0)
    if exact.any():
        from scipy.stats import binom  # slow to import, and rarely needed

        p[exact] = binom.sf((changed[exact] > 0).sum(axis=1) - 1, counts[exact], 0.5)
    others = np.flatnonzero(~alike & (counts > 0))
    if len(others):
        p[others] = np.minimum(_by_sign_changes(changed[others]), _hoeffding(changed[others]))
    return p


def _by_sign_changes(changed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of random sign changes whose sum is at least as great, shape (rows,)."""
    used = changed[:, changed.any(axis=0)]
    magnitudes, sums = np.abs(used).T, used.sum(axis=1) - 1e-12
    random, reached = np.random.RandomState(_SEED), np.zeros(len(used), np.int64)
    for _ in range(0, _PERMUTATIONS, _AT_ONCE):
        signs = random.randint(2, size=(_AT_ONCE, len(magnitudes)), dtype=np.int8) * np.int8(2) - np.int8(1)
        reached += (signs.astype(np.float64) @ magnitudes >= sums).sum(axis=0)
    return (1.0 + reached) / (_PERMUTATIONS + 1)


def _hoeffding(changed: NDArray[np.float64]) -> NDArray[np.float64]:
    """``exp(-sum^2 / (2 sum of squares))``, shape (rows,): no share of sign changes is greater (Hoeffding 1963).

    Below what so few random ones can show, it keeps corrections for many settings from hiding clear differences.
    """
    sums = np.maximum(changed.sum(axis=1), 0.0)
    return np.asarray(np.exp(-(sums**2) / (2 * np.square(changed).sum(axis=1))), np.float64)
