"""Images whose result differs between two nights, and what that does to each class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.files.strict_yaml import StrictModel
from harness.gates.baseline import SCORE_DIGITS, BaselineTrial
from harness.trials.artefacts import Artefact
from harness.trials.trial import TrialResult

KEPT = 12
"""Images of a trial that are kept and shown, the greatest changes first."""
_FEW_CLASSES = 8
"""Classes that are kept, the greatest changes first."""


class Flip(StrictModel):
    """An image with another result.

    Attributes:
        image: its index in the evaluation split.
        label: its class; None where it is not known, or the task has no classes.
        before, now: class that the model gave it; None likewise.
        score_before, score_now: its score, 0..1.
        file: that it is; empty where it has none of its own.
    """

    image: int
    label: int | None = None
    before: int | None = None
    now: int | None = None
    score_before: float
    score_now: float
    file: str = ""

    @property
    def name(self) -> str:
        """The name of the image's file, else the image's number."""
        return self.file or f"image {self.image}"

    def __str__(self) -> str:
        label = "" if self.label is None else f" (label {self.label})"
        if self.before is None or self.now is None:
            return f"{self.name}{label}: score {self.score_before:.3f} → {self.score_now:.3f}"
        return f"{self.name}{label}: {self.before} → {self.now}"


class ClassDelta(StrictModel):
    """What became of a class.

    Attributes:
        label: of the class.
        count: images of it.
        before, now: mean score of them.
    """

    label: int
    count: int
    before: float
    now: float


class Flips(StrictModel):
    """All that differs in the results of a trial.

    Attributes:
        worse, better: number of images with a lower and a higher score.
        images: those that changed most.
        folder: that all files of images lie in; empty where they have none.
        classes: those that changed most.
    """

    worse: int
    better: int
    images: tuple[Flip, ...] = ()
    folder: str = ""
    classes: tuple[ClassDelta, ...] = ()


def flips_of(
    result: TrialResult,
    accepted: BaselineTrial,
    predictions: dict[str, NDArray[Any]],
    labels: NDArray[np.int64] | None,
    files: Sequence[Path] = (),
) -> Flips | None:
    """Which images have another result than in the baseline; None if the images differ or are unknown, or their scores
    are of another kind.

    Args:
        result: of the trial now.
        accepted: the trial in the baseline.
        predictions: arrays of the trial now.
        labels: class per evaluation image, shape (images,); None where images have none.
        files: of the evaluation images; none where they have no files of their own.
    """
    scores = predictions.get("per_sample")
    if accepted.scores is None or scores is None or not _same_images(result, accepted):
        return None
    if (accepted.resampled is None) != ("resampled" not in predictions):
        return None  # scores of an older version
    before = accepted.scores.array()
    if before.shape != scores.shape:
        return None
    kept = accepted.made.answers if accepted.made else None
    answers = (kept.array() if kept else None, predictions.get("classes"))
    change = np.where(np.abs(scores - before) > 0.5 * 10**-SCORE_DIGITS, scores - before, 0.0)
    differs = change != 0
    if answers[0] is not None and answers[1] is not None and answers[0].shape == answers[1].shape:
        differs |= answers[0] != answers[1]
    else:
        answers = None, None
    folder = Path(os.path.commonpath([file.parent for file in files])) if files else None
    order = sorted(np.flatnonzero(differs).tolist(), key=lambda index: (change[index], index))
    images = tuple(
        Flip(
            image=index,
            label=None if labels is None else int(labels[index]),
            before=None if answers[0] is None else int(answers[0][index]),
            now=None if answers[1] is None else int(answers[1][index]),
            score_before=float(before[index]),
            score_now=float(scores[index]),
            file="" if folder is None else str(files[index].relative_to(folder)),
        )
        for index in order[:KEPT]
    )
    return Flips(
        worse=int((change < 0).sum()),
        better=int((change > 0).sum()),
        images=images,
        folder=str(folder or ""),
        classes=_classes(before, before + change, labels),
    )


def _same_images(result: TrialResult, accepted: BaselineTrial) -> bool:
    name = Artefact.EVALUATION_IMAGES
    before = accepted.made.artefacts.get(name) if accepted.made else None
    now = result.artefacts.get(name)
    return before == now if before and now else accepted.data == result.spec.data


def _classes(
    before: NDArray[np.float64], now: NDArray[np.float64], labels: NDArray[np.int64] | None
) -> tuple[ClassDelta, ...]:
    if labels is None:
        return ()
    found = []
    for label in np.unique(labels).tolist():
        own = labels == label
        delta = ClassDelta(
            label=label, count=int(own.sum()), before=float(before[own].mean()), now=float(now[own].mean())
        )
        if delta.before != delta.now:
            found.append(delta)
    return tuple(sorted(found, key=lambda each: (each.now - each.before, each.label))[:_FEW_CLASSES])
