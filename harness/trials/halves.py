"""Two halves of the evaluation samples: settings are chosen on one, and what was chosen is reported on the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SEED = 0

LEAST = 4
"""Samples from which there are halves."""


def selection_samples(count: int) -> NDArray[np.bool_]:
    """Which of ``count`` samples belong to the selection half, shape (count,); the others are the test half.

    Drawn at random, the same ones for every trial on as many samples: any order of a data set (by class, by time)
    would otherwise make the halves differ. All False where there are fewer than :data:`LEAST`.
    """
    chosen = np.zeros(count, bool)
    if count >= LEAST:
        chosen[np.random.RandomState(_SEED).permutation(count)[: count // 2]] = True
    return chosen
