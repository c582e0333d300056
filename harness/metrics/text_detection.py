"""Boxes of text from a probability map, and their harmonic mean of precision and recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.datasets import SceneTarget, Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.base import Array, Metric, Score, check_outputs, scene_targets
from harness.metrics.detection import box_iou


class HmeanOptions(StrictModel):
    """How a probability map becomes boxes; the defaults are those of PaddleOCR's models.

    Attributes:
        threshold: pixels above it belong to text.
        box_threshold: regions whose box has a lower mean probability are dropped.
        unclip_ratio: a box of area ``A`` and perimeter ``L`` grows by ``A * unclip_ratio / L`` on each side: the
            network draws text shrunk (Liao et al., Real-time Scene Text Detection with Differentiable Binarization,
            section 3.4).
        min_side: boxes of which a side is shorter, in pixels, before they grow are dropped.
        match_iou: overlap from which a box has found a target.
    """

    threshold: float = Field(default=0.3, gt=0, lt=1)
    box_threshold: float = Field(default=0.5, ge=0, lt=1)
    unclip_ratio: float = Field(default=1.6, ge=0)
    min_side: int = Field(default=3, ge=1)
    match_iou: float = Field(default=0.5, gt=0, le=1)


class Hmean(Metric):
    """``2 * matches / (boxes + targets)`` over all images: the harmonic mean of precision and recall (ICDAR 2015).

    Boxes are upright rectangles around connected regions. A box matches one target and a target one box; of all ways to
    pair them at IoU ``match_iou`` the one with most pairs counts. ``per_sample`` is the same figure for one image, 1
    where nothing is to be found and nothing was. The standard error is a bootstrap over images.
    """

    name = "hmean"
    sought = "text"
    Options = HmeanOptions

    def __init__(self, options: HmeanOptions) -> None:
        self._options = options

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """One output: probability of text per pixel, shape (images, 1, height, width)."""
        scenes = scene_targets(targets)
        height, width = scenes[0].mask.shape
        check_outputs(outputs, [(len(scenes), 1, height, width)])
        found = [text_boxes(probabilities, self._options) for (probabilities,) in outputs[0]]
        matches = np.array(
            [_matches(boxes, scene.boxes, self._options.match_iou) for boxes, scene in zip(found, scenes, strict=True)]
        )
        listed = np.array([len(boxes) + len(scene.boxes) for boxes, scene in zip(found, scenes, strict=True)])
        has_text = np.array([len(scene.boxes) > 0 for scene in scenes])
        return score_matches(matches, listed, has_text)

    def labels(self, outputs: Sequence[Array]) -> Targets:
        """The boxes of every page."""
        found = [text_boxes(probabilities, self._options) for (probabilities,) in outputs[0]]
        empty = np.zeros(outputs[0].shape[2:], np.uint8)
        return [SceneTarget(boxes, np.zeros(len(boxes), np.int64), empty) for boxes in found]


def text_boxes(probabilities: Array, options: HmeanOptions) -> NDArray[np.float32]:
    """Boxes on one image, float32, shape (boxes, 4): left, top, right, bottom in pixels.

    Args:
        probabilities: shape (height, width), 0..1; NaN is no text.
        options: thresholds and growth.
    """
    from scipy import ndimage  # not above: every command that reads a card would wait for scipy

    probabilities = np.nan_to_num(probabilities)
    size = probabilities.shape[::-1]
    regions, _ = ndimage.label(probabilities > options.threshold, structure=np.ones((3, 3)))
    boxes = []
    for rows, columns in ndimage.find_objects(regions):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        if min(height, width) < options.min_side or probabilities[rows, columns].mean() < options.box_threshold:
            continue
        growth = height * width * options.unclip_ratio / (2 * (height + width))
        limits = (columns.start - growth, rows.start - growth, columns.stop + growth, rows.stop + growth)
        boxes.append(np.clip(limits, 0, [*size, *size]))
    return np.array(boxes, np.float32).reshape(-1, 4)


def score_matches(matches: NDArray[np.int64], listed: NDArray[np.int64], has_text: NDArray[np.bool_]) -> Score:
    """The harmonic mean of precision and recall; see :class:`Hmean`.

    Args:
        matches: pairs of a box and a target, shape (images,).
        listed: boxes and targets, shape (images,).
        has_text: whether there are targets, shape (images,).
    """

    def hmean(weights: NDArray[np.float32]) -> NDArray[np.float64]:
        return _ratio(2.0 * (weights @ matches), weights @ listed)

    return Score.of(hmean, _ratio(2.0 * matches, listed), has_text)


def _ratio(part: Array, whole: Array) -> NDArray[np.float64]:
    """1 where nothing is to be found and nothing was."""
    found: NDArray[np.float64] = np.divide(part, whole, out=np.ones(len(part)), where=whole > 0)
    return found


def _matches(found: NDArray[np.float32], wanted: NDArray[np.float32], match_iou: float) -> int:
    """Most pairs of a box and a target that overlap by ``match_iou`` at least."""
    from scipy.optimize import linear_sum_assignment  # not above, as in text_boxes

    pairs = box_iou(found, wanted) >= match_iou
    return int(pairs[linear_sum_assignment(pairs, maximize=True)].sum())
