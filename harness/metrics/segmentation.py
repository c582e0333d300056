"""Mean intersection over union of class masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.datasets import SceneTarget, Targets
from harness.metrics.base import Array, Metric, Score, bootstrap_stderr, check_outputs, scene_targets
from harness.strict_yaml import StrictModel


class MiouOptions(StrictModel):
    """Attributes:
    classes: number of classes of the mask, background included.
    """

    classes: int = Field(ge=2, le=256)


class Miou(Metric):
    """Mean over classes of intersection / union, counted over all pixels of the split.

    A pixel's class is the largest logit, the first of equal ones. Classes that neither targets nor outputs hold stay
    out of the mean. The standard error is a bootstrap over images.
    """

    name = "miou"
    Options = MiouOptions

    def __init__(self, options: MiouOptions) -> None:
        self._classes = options.classes

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output: logits, shape (images, classes, height, width), as large as the targets' masks."""
        scenes = scene_targets(targets)
        check_outputs(outputs, [(len(scenes), self._classes, *scenes[0].mask.shape)])
        confusion = np.stack(
            [self._confusion(logits, scene.mask) for logits, scene in zip(outputs[0], scenes, strict=True)]
        )
        flat = confusion.reshape(len(scenes), -1)
        stderr = bootstrap_stderr(lambda counts: _mean_iou((counts @ flat).reshape(confusion.shape[1:])), len(scenes))
        return Score(_mean_iou(confusion.sum(axis=0)), stderr, np.array([_mean_iou(image) for image in confusion]))

    def by_class(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        """Intersection over union of each class."""
        pairs = zip(outputs[0], scene_targets(targets), strict=True)
        return _ious(sum(self._confusion(logits, scene.mask) for logits, scene in pairs))

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The class of every pixel."""
        no_boxes, no_classes = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
        return [SceneTarget(no_boxes, no_classes, mask) for mask in outputs[0].argmax(axis=1).astype(np.uint8)]

    def _confusion(self, logits: Array, mask: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Pixels by class of the target (rows) and of the output (columns)."""
        pairs = mask.astype(np.int64) * self._classes + logits.argmax(axis=0)
        counts: NDArray[np.int64] = np.bincount(pairs.reshape(-1), minlength=self._classes**2)
        return counts.reshape(self._classes, self._classes)


def _mean_iou(confusion: NDArray[np.int64]) -> float:
    return float(np.nanmean(_ious(confusion)))


def _ious(confusion: Any) -> NDArray[np.float64]:
    """Intersection over union by class; NaN where neither targets nor outputs have the class."""
    intersection = np.diag(confusion)
    union = confusion.sum(axis=0) + confusion.sum(axis=1) - intersection
    found = np.full(len(intersection), np.nan)
    np.divide(intersection, union, out=found, where=union > 0)
    return found
