"""Tests on paired predictions: the same samples, before and after."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.gates.baseline import SCORE_DIGITS

_PERMUTATIONS = 10_000
_SEED = 0


def paired_p_value(differences: NDArray[np.float64]) -> float:
    """Probability of a mean at least this great if every difference might as well have had the other sign.

    One-sided. Exact (McNemar, binomial) where all differences other than 0 are equally large; else from 10,000 random
    sign changes, the same ones every time.

    Args:
        differences: per sample, shape (samples,).
    """
    changed = differences[
        np.abs(differences) > 0.5 * 10**-SCORE_DIGITS
    ]  # what a baseline's rounding leaves is no change
    if not len(changed):
        return 1.0
    magnitudes = np.abs(changed)
    if magnitudes.max() - magnitudes.min() < 1e-12:
        from scipy.stats import binomtest  # slow to import, and rarely needed

        return float(binomtest(int((changed > 0).sum()), len(changed), alternative="greater").pvalue)
    random = np.random.RandomState(_SEED)
    signs = random.randint(2, size=(_PERMUTATIONS, len(changed)), dtype=np.int8) * np.int8(2) - np.int8(1)
    sums = signs.astype(np.float64) @ magnitudes
    return float((1 + (sums >= changed.sum() - 1e-12).sum()) / (_PERMUTATIONS + 1))
