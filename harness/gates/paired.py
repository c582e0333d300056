"""Tests on paired predictions: the same samples, before and after; one pair of models or many against one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.gates.baseline import SCORE_DIGITS
from harness.trials.figures import Z95

_PERMUTATIONS = 10_000
_AT_ONCE = 1_000
"""Sign changes drawn at a time; bounds memory."""

_SEED = 0


def paired_p_value(differences: NDArray[np.float64]) -> float:
    """Probability of a mean at least this great if every difference might as well have had the other sign.

    One-sided. Exact (McNemar, binomial) where all differences other than 0 are equally large; else from 10,000 random
    sign changes, the same ones every time.

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
        p[others] = _by_sign_changes(changed[others])
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


def paired_interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean of ``differences``: 1.96 standard errors around it.

    Of scores 0 and 1 that is Wald's interval for the difference of two paired proportions.

    Args:
        differences: per sample, shape (samples,), at least one.
    """
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return mean - Z95 * error, mean + Z95 * error
