"""A metric of the user's own: a function of outputs and targets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, InferenceError
from harness.datasets import Targets
from harness.files.user_code import running_own
from harness.metrics.base import Array, Metric, Score

OwnFunction = Callable[..., Any]
"""Takes the outputs of a model, a list of arrays with samples in the first dimension, and the targets of the same
samples; gives a score per sample, whose mean is the metric, or one number for all of them. Larger is better."""


class OwnMetric(Metric):
    """A function ``module:function`` as a metric; a card's options are its keyword arguments.

    Where the function gives one number for all samples, the score of a sample is what it gives for that sample alone,
    and its values on resamples are those of its linear part, from what it gives without each of the samples (the
    jackknife: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 11). A function that gives a score per
    sample is called once instead of twice per sample.

    Three attributes of the function are used where it has them: ``labels(outputs, **options)`` gives what outputs say
    in the form of targets, and ``parts(outputs, **options)`` slices of outputs by name, as the methods of
    :class:`Metric` of these names; ``higher_is_better = False`` makes it an error.

    Args:
        name: ``module:function``.
        function: the function.
        options: of the card.

    Raises:
        ConfigError: it is no function, or does not take the options. Its methods raise it where the function raises.
    """

    def __init__(self, name: str, function: OwnFunction, options: Mapping[str, Any]) -> None:
        if not callable(function):
            raise ConfigError(f"metric {name!r} is {type(function).__name__}, expected a function")
        try:
            inspect.signature(function).bind([], [], **options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"metric {name!r}: does not take outputs, targets and the options: {error}") from error
        self._function, self._options = function, dict(options)
        self.name = name
        self.higher_is_better = bool(getattr(function, "higher_is_better", True))

    def score(self, outputs: Sequence[Array], targets: Targets) -> Score:
        """What the function gives."""
        count = len(outputs[0])
        found = self._scores(outputs, targets)
        per_sample = found
        if found.ndim == 0:
            parts = [self._scores([output[i : i + 1] for output in outputs], targets[i : i + 1]) for i in range(count)]
            per_sample = np.array(parts, np.float64).reshape(-1)
        if per_sample.shape != (count,) or not np.isfinite(per_sample).all() or not np.isfinite(found).all():
            raise InferenceError(
                f"metric {self.name}: gave {found.shape} for {count} samples; expected a finite number for each, or one"
            )
        if found.ndim or count < 2:
            return Score.mean(per_sample)
        value, influence = float(found), self._influence(float(found), outputs, targets)
        return Score.of(lambda weights: value + count * (weights @ influence) / weights.sum(axis=1), per_sample)

    def _influence(self, value: float, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        """Change of the metric per sample and unit of weight, shape (samples,); sums to 0."""
        count = len(outputs[0])
        found = np.zeros(count)
        for place in range(count):
            rest = np.delete(np.arange(count), place)
            without = float(self._scores([output[rest] for output in outputs], targets_at(targets, rest)))
            found[place] = (value - without) * (count - 1) / count
        return np.asarray(found - found.mean(), np.float64)

    def labels(self, outputs: Sequence[Array]) -> Targets | None:
        """What the function's ``labels`` gives."""
        labels = getattr(self._function, "labels", None)
        with running_own(self.name, "metric"):
            found: Targets | None = None if labels is None else labels(list(outputs), **self._options)
        return found

    def parts(self, outputs: Sequence[Array]) -> Mapping[str, Sequence[Array]]:
        """What the function's ``parts`` gives."""
        parts = getattr(self._function, "parts", None)
        with running_own(self.name, "metric"):
            found: Mapping[str, Sequence[Array]] = {} if parts is None else parts(list(outputs), **self._options)
        return found

    def _scores(self, outputs: Sequence[Array], targets: Targets) -> NDArray[np.float64]:
        with running_own(self.name, "metric"):
            return np.asarray(self._function(list(outputs), targets, **self._options), np.float64)


def targets_at(targets: Targets, places: NDArray[np.int64]) -> Targets:
    """The targets at ``places``."""
    if isinstance(targets, np.ndarray):
        return targets[places]
    listed: Sequence[Any] = list(targets)
    return [listed[place] for place in places.tolist()]
