"""Top-k accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import InferenceError
from harness.datasets import Targets
from harness.metrics.base import Array, Metric, NoOptions, Score


class _TopK(Metric):
    """Share of images whose class is among the ``k`` largest outputs.

    Equal outputs, which integer models produce often, rank by index as ``argmax`` does; an image with a NaN output is
    wrong. The standard error is the binomial one.
    """

    k: ClassVar[int]

    def __init__(self, options: NoOptions) -> None:
        del options

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output: class scores, shape (images, classes) or with further dimensions of size 1."""
        if not isinstance(targets, np.ndarray) or len(outputs) != 1 or len(outputs[0]) != len(targets):
            raise InferenceError(f"{self.name} needs one output with one row per target")
        if not len(targets):
            raise InferenceError(f"{self.name} needs at least one image")
        scores = outputs[0].reshape(len(targets), -1)
        if targets.max() >= scores.shape[1]:
            raise InferenceError(f"{self.name}: target class {targets.max()}, the output has {scores.shape[1]} classes")
        hits = (_ranks(scores, targets) < self.k) & ~np.isnan(scores).any(axis=1)
        value = float(hits.mean())
        return Score(value, float(np.sqrt(value * (1 - value) / len(hits))), hits.astype(np.float64))

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The class with the largest output, the first of equal ones."""
        found: Targets = outputs[0].reshape(len(outputs[0]), -1).argmax(axis=1).astype(np.int64)
        return found

    def by_class(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        """Share of the images of each class that are right."""
        hits, classes = self.score(outputs, targets).per_sample, np.asarray(targets)
        count = outputs[0].reshape(len(outputs[0]), -1).shape[1]
        found = np.full(count, np.nan)
        images = np.bincount(classes, minlength=count)
        np.divide(np.bincount(classes, hits, minlength=count), images, out=found, where=images > 0)
        return found

    def agreement(self, ours: Sequence[Array], floats: Sequence[Array]) -> float:
        """Share of images on which both models say the same class."""
        return float(np.mean(np.asarray(self.labels(ours)) == np.asarray(self.labels(floats))))


class Top1(_TopK):
    """Share of images whose class has the largest output."""

    name = "top1"
    k = 1


class Top5(_TopK):
    """Share of images whose class is among the five largest outputs."""

    name = "top5"
    k = 5


def _ranks(scores: Array, classes: Array) -> Array:
    """How many classes come before the right one, int64, shape (images,)."""
    own = np.take_along_axis(scores, classes[:, np.newaxis], axis=1)
    earlier = np.arange(scores.shape[1]) < classes[:, np.newaxis]
    ranks: Array = ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
    return ranks
