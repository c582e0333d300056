"""The score of answers that do not depend on the image, computed from the labels alone."""

from __future__ import annotations

import numpy as np
from rapidfuzz.distance import Levenshtein

from harness.datasets import SceneTarget, Targets
from harness.datasets.mask_annotations import IGNORED
from harness.metrics import Score

NOTHING_FOUND = 0.02
"""A score at which a detector finds nothing."""


def chance_level(metric: str, targets: Targets) -> float:
    """Score of a guess: share of the most frequent class, IoU of one class everywhere, or that of another's text.

    Args:
        metric: that scores.
        targets: of the images.
    """
    if isinstance(targets, np.ndarray):
        _, counts = np.unique(targets, return_counts=True)
        return float(counts.max() / counts.sum())
    texts = [target for target in targets if isinstance(target, str)]
    if texts:
        others = texts[1:] + texts[:1]
        similar = [Levenshtein.normalized_similarity(*pair) for pair in zip(texts, others, strict=True)]
        return float(np.mean([value == 1 for value in similar] if metric == "word_accuracy" else similar))
    if metric == "miou":
        masks = [target.mask.reshape(-1) for target in targets if isinstance(target, SceneTarget)]
        counts = np.sum([np.bincount(mask, minlength=256) for mask in masks], axis=0)
        counts[IGNORED] = 0
        return float(counts.max() / counts.sum() / (counts > 0).sum()) if counts.any() else 0.0
    return NOTHING_FOUND


def is_at_chance(score: Score, level: float, count: int) -> bool:
    """Whether ``score`` on ``count`` images is not above ``level`` by two standard errors."""
    error = max(score.stderr, float(np.sqrt(level * (1 - level) / count)) if level > NOTHING_FOUND else 0.0)
    return score.value <= level + 2 * error
