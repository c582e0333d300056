"""Whether labels and outputs mean the same classes under other numbers: shifted by one, or in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.datasets import SceneTarget, Targets
from harness.metrics import Metric, Score
from harness.metrics.detection import box_iou
from harness.metrics.segmentation import Miou
from harness.onboarding.head_guess import HeadGuess
from harness.zoo.cards import TaskKind

_GAIN = 0.2
"""Share of answers that must be right under the other numbers, beyond those that are right as they are."""
_IOU = 0.5
_SHOWN = 4


def numbering_note(
    head: HeadGuess, metric: Metric, score: Score, outputs: Sequence[NDArray[Any]], targets: Targets
) -> tuple[str, ...]:
    """Which numbers of the labels are which of the outputs, where most answers would be right under other numbers.

    The numbers are matched on every second image, and counted on the others: what only fits by chance does not count.

    Args:
        head: of the network.
        metric: that scored the outputs.
        score: of the outputs.
        outputs, targets: of the same images.
    """
    counts = _confusions(head, metric, outputs, targets)
    if counts is None:
        return ()
    learnt, counted = counts
    rows, columns = linear_sum_assignment(learnt, maximize=True)
    is_seen = learnt[rows, columns] > 0
    rows, columns = rows[is_seen], columns[is_seen]
    total = max(int(counted.sum()), 1)
    now, then = float(np.trace(counted) / total), float(counted[rows, columns].sum() / total)
    if then < now + _GAIN or (rows == columns).all():
        return ()
    shifts = set((columns - rows).tolist())
    if len(shifts) == 1:
        (by,) = shifts
        what = f"the output's number is the label's {'plus' if by > 0 else 'minus'} {abs(by)}"
    else:
        order = np.argsort(-learnt[rows, columns], kind="stable")
        pairs = [f"label {rows[i]} is output {columns[i]}" for i in order if rows[i] != columns[i]]
        what = ", ".join(pairs[:_SHOWN]) + (", …" if len(pairs) > _SHOWN else "")
    return (
        f"float {head.metric} {score.value:.3f}, but classes seem to be numbered otherwise than the network numbers "
        f"them: {what}; then {then:.0%} of the answers are right, and not {now:.0%}",
    )


def _confusions(
    head: HeadGuess, metric: Metric, outputs: Sequence[NDArray[Any]], targets: Targets
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Answers by label (rows) and output (columns), of the images in even places and of the others."""
    if head.task is TaskKind.CLASSIFICATION and isinstance(targets, np.ndarray):
        said = outputs[0].reshape(len(targets), -1).argmax(axis=1)
        pairs = [(np.array([label]), np.array([answer])) for label, answer in zip(targets, said, strict=True)]
    elif head.metric == "miou":
        if not isinstance(metric, Miou) or head.classes > _MOST_CLASSES:
            return None
        found = metric.confusions(outputs, targets)
        return found[::2].sum(axis=0), found[1::2].sum(axis=0)
    elif head.metric == "map50":
        answers = metric.labels(outputs)
        pairs = [
            _overlapping(target, answer)
            for target, answer in zip(targets, answers or (), strict=False)
            if isinstance(target, SceneTarget) and isinstance(answer, SceneTarget)
        ]
    else:
        return None
    halves = []
    for half in (pairs[::2], pairs[1::2]):
        counts = np.zeros((head.classes, head.classes), np.int64)
        for labels, said in half:
            np.add.at(counts, (labels, said), 1)
        halves.append(counts)
    return halves[0], halves[1]


_MOST_CLASSES = 255


def _overlapping(target: SceneTarget, answer: SceneTarget) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Class of each labelled box, and of the detection that overlaps it most, by half at least."""
    overlap = box_iou(target.boxes, answer.boxes)
    if not overlap.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    best = overlap.argmax(axis=1)
    is_found = overlap[np.arange(len(best)), best] >= _IOU
    return target.classes[is_found], answer.classes[best[is_found]]
