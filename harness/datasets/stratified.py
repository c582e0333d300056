"""Assignment of labelled samples to splits: seeded, disjoint, every class in the same proportion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError


def stratified_splits(
    classes: NDArray[np.int64], per_class: Mapping[str, int], seed: int
) -> dict[str, NDArray[np.int64]]:
    """Indices of each split, classes in rotation (0, 1, …, 0, 1, …), so that every prefix of a split is balanced.

    Args:
        classes: int64, shape (samples,).
        per_class: samples of each class, by split.
        seed: of ``RandomState``, whose streams numpy guarantees never to change (``Generator``'s may).

    Raises:
        ConfigError: a class has fewer samples than the splits need together.
    """
    random = np.random.RandomState(seed)
    wanted = sum(per_class.values())
    shuffled = [random.permutation(np.flatnonzero(classes == label)) for label in np.unique(classes)]
    if smallest := [len(members) for members in shuffled if len(members) < wanted]:
        raise ConfigError(f"splits of {dict(per_class)} samples per class need {wanted}; a class has {min(smallest)}")
    ends = np.cumsum(list(per_class.values()))
    return {
        name: np.stack([members[end - count : end] for members in shuffled], axis=1).reshape(-1)
        for (name, count), end in zip(per_class.items(), ends, strict=True)
    }
