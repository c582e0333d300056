"""What a metric is, and what it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import InferenceError
from harness.datasets import SceneTarget, Targets
from harness.files.strict_yaml import StrictModel
from harness.metrics.resampling import Statistic, draws_of, resampled, spread

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """Result of a metric on a split.

    Attributes:
        value: the metric, 0..1.
        error: standard error of ``value`` for another sample of as many images; None where ``statistic`` tells it.
        per_sample: float64, shape (images,), 0..1: quality of each image's output alone, in the order of the split; 1
            where there is nothing to find and nothing was found.
        informative: bool, shape (images,): which images hold something to find by the targets; None where all do.
        statistic: ``value`` of other numbers of each image; None where it is the mean of ``per_sample``.
    """

    value: float
    error: float | None
    per_sample: NDArray[np.float64]
    informative: NDArray[np.bool_] | None = None
    statistic: Statistic | None = None

    @classmethod
    def mean(cls, per_sample: NDArray[np.float64], informative: NDArray[np.bool_] | None = None) -> Score:
        """The mean of ``per_sample``, with the standard error of a mean."""
        count = len(per_sample)
        error = float(per_sample.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0
        return cls(float(per_sample.mean()), error, per_sample, informative)

    @classmethod
    def of(
        cls, statistic: Statistic, per_sample: NDArray[np.float64], informative: NDArray[np.bool_] | None = None
    ) -> Score:
        """``statistic`` of all images once, with the standard error of a bootstrap."""
        value = float(statistic(np.ones((1, len(per_sample)), np.float32))[0])
        return cls(value, None, per_sample, informative, statistic)

    @cached_property
    def resampled(self) -> NDArray[np.float64] | None:
        """``value`` on the resamples that all models share (:func:`harness.metrics.resampling.weightings`).

        Computed when it is first asked for: float64, shape (rows,), NaN where it is not defined; None where ``value``
        is the mean of ``per_sample``.
        """
        return None if self.statistic is None else resampled(self.statistic, len(self.per_sample))

    @cached_property
    def stderr(self) -> float:
        """Standard error of ``value``."""
        if self.error is not None:
            return self.error
        return 0.0 if self.resampled is None else spread(draws_of(self.resampled))


def read_only(outputs: Sequence[Array]) -> list[Array]:
    """Views that cannot be written to, of which a metric may keep what it decodes."""
    views = [np.asarray(output).view() for output in outputs]
    for view in views:
        view.flags.writeable = False
    return views


class NoOptions(StrictModel):
    """For metrics that need none."""


class Metric(ABC):
    """Compares the raw outputs of a model, as the float model gives them, with the targets of a split.

    Attributes:
        name: key in the registry.
        higher_is_better: direction.
        sought: what images hold that there is to find, in the plural; empty where every image has a right answer.
        Options: pydantic model of the options that a card may give.
    """

    name: str
    higher_is_better: bool = True
    sought: ClassVar[str] = ""
    Options: ClassVar[type[StrictModel]] = NoOptions

    @abstractmethod
    def __init__(self, options: Any) -> None:
        """Prepare the metric with options of type :attr:`Options`."""

    @abstractmethod
    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """Score all images of a split.

        Args:
            outputs: the model's outputs in its order, each with the images in the first dimension.
            targets: of the same images.

        Raises:
            InferenceError: number or shape of the outputs do not fit the options or the targets.
        """

    def labels(self, outputs: Sequence[Array]) -> Targets | None:
        """What ``outputs`` say, in the form of targets; None where the metric knows no decisions.

        Of the float model's outputs they stand in for labels, where a data set has none.
        """
        del outputs
        return None

    def agreement(self, ours: Sequence[Array], floats: Sequence[Array]) -> float | None:
        """The metric of ``ours`` with the decisions of ``floats`` as labels, 0..1; None where nothing is decided."""
        labels = self.labels(floats)
        return None if labels is None else self.score(ours, labels).value

    def by_class(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64] | None:
        """The metric of each class alone, shape (classes,), NaN where there is none; None where classes mean nothing.

        Args:
            outputs: as of :meth:`score`.
            targets: as of :meth:`score`.
        """
        del outputs, targets
        return None

    def parts(self, outputs: Sequence[Array]) -> Mapping[str, Sequence[Array]]:
        """Slices of the outputs that mean different things, by name; samples stay in the first dimension.

        Empty where the metric knows no such parts. Boxes in pixels and scores in 0..1, say, must not be compared as one
        vector: the greater numbers would hide what happens to the smaller ones.
        """
        del outputs
        return {}


def scene_targets(targets: Targets) -> list[SceneTarget]:
    """The targets, checked to be boxes and masks."""
    scenes = [target for target in targets if isinstance(target, SceneTarget)]
    if not scenes or len(scenes) != len(targets):
        raise InferenceError("this metric needs targets with boxes and masks for every image, and at least one image")
    return scenes


def check_outputs(outputs: Sequence[Array], shapes: Sequence[tuple[int | None, ...]]) -> None:
    """Raise InferenceError unless there is one output per shape, and each has it; ``None`` stands for any size."""
    found = [output.shape for output in outputs]
    fits = len(found) == len(shapes) and all(
        len(have) == len(want) and all(w in (None, h) for h, w in zip(have, want, strict=True))
        for have, want in zip(found, shapes, strict=True)
    )
    if not fits:
        raise InferenceError(f"outputs have shapes {found}, the metric and the targets need {list(shapes)}")
