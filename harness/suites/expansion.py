"""From a suite to its trials: models by selection, the grid on each, explicit trials."""

from __future__ import annotations

import fnmatch
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.chips import March, load_chip
from engine.errors import ConfigError
from engine.terms import InputType
from harness.files.strict_yaml import unknown
from harness.suites.grid import Skipped
from harness.suites.settings import Int16Kind, Int16Policy, Settings
from harness.suites.suite import Point, Suite

SELECTORS = ("tag", "task", "dataset")
"""What models can be selected by besides their name, as in ``task:detection``; the name of a tag goes without."""


@dataclass(frozen=True)
class ModelFacts:
    """What an expansion asks of a model.

    Attributes:
        labels: its tags, ``task:…`` and ``dataset:…``.
        input_types: colour formats that it can be fed with at run time.
        calibration_samples, evaluation_samples: how many its card offers.
    """

    labels: Sequence[str] = ()
    input_types: Sequence[InputType] = tuple(InputType)
    calibration_samples: int = sys.maxsize
    evaluation_samples: int = sys.maxsize


@dataclass(frozen=True)
class Expansion:
    """What a suite holds.

    Attributes:
        points: its trials, in order, each once.
        skipped: reasons why combinations of its grid are no trials, with how many each leaves out.
    """

    points: Sequence[Point]
    skipped: Mapping[str, int]


def expand(suite: Suite, models: Mapping[str, ModelFacts], where: str | None = None) -> Expansion:
    """All points of the suite: by model, then march, the grid before explicit trials.

    Args:
        suite: the suite.
        models: all that there are, by name.
        where: what messages call the suite; None for its name.

    Raises:
        ConfigError: a selection matches no model, a trial asks of a model or march what it does not have, a value of
            the grid can never be used, or nothing is left.
    """
    where = where or f"suite {suite.name}"
    points, skipped = _of_grid(suite, models, where)
    for index, trial in enumerate(suite.trials):
        for model in _selected(trial.models or suite.models, models, f"{where}: trials.{index}.models"):
            for march in trial.march or suite.march:
                misfit = _misfit(trial, suite, march, models[model])
                if misfit is not None:
                    raise ConfigError(f"{where}: trials.{index}.{misfit} (model {model}, march {march.value})")
                points.append(Point(model=model, march=march, settings=trial.settings))
    if not points:
        raise ConfigError(f"{where}: sweep: leaves no trial on march {', '.join(suite.march)}")
    _check_counts(suite, [models[point.model] for point in points], where)
    order = list(dict.fromkeys(name for point in points for name in (point.model, point.march)))
    ordered = sorted(dict.fromkeys(points), key=lambda point: (order.index(point.model), order.index(point.march)))
    return Expansion(ordered, Counter(each.reason for each in skipped))


def _check_counts(suite: Suite, models: Sequence[ModelFacts], where: str) -> None:
    """Refuse a number of samples that no model of the suite has; it is a cap for those that have fewer."""
    for key in ("calibration_samples", "evaluation_samples"):
        wanted, most = getattr(suite, key), max(getattr(facts, key) for facts in models)
        if wanted is not None and wanted > most:
            raise ConfigError(f"{where}: {key}: {wanted}: no model of the suite has more than {most}")


def _of_grid(suite: Suite, models: Mapping[str, ModelFacts], where: str) -> tuple[list[Point], list[Skipped]]:
    """The points of the grid, and the combinations that are none."""
    selected = _selected(suite.models, models, f"{where}: models")
    if suite.sweep is None:
        return [], []
    settings, skipped = suite.sweep.combinations()
    points = []
    for model, march, setting in itertools.product(selected, suite.march, settings):
        misfit = _misfit(setting, suite, march, models[model])
        if misfit is None:
            points.append(Point(model=model, march=march, settings=setting))
        else:
            skipped.append(Skipped({name: getattr(setting, name) for name in Settings.model_fields}, misfit))
    for axis, value in suite.sweep.values():
        if not any(getattr(point.settings, axis) == value for point in points):
            reasons = [each.reason for each in skipped if each.values[axis] == value]
            reason = reasons[0] if reasons else "max_percentile belongs to calibration_type 'max'"
            raise ConfigError(f"{where}: sweep.{axis}: {_as_text(value)} cannot be used in any trial: {reason}")
    return points, skipped


def _as_text(value: Any) -> str:
    return value.label if isinstance(value, Int16Policy) else repr(getattr(value, "value", value))


def _selected(patterns: Sequence[str], models: Mapping[str, ModelFacts], where: str) -> list[str]:
    try:
        return select(patterns, {name: facts.labels for name, facts in models.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _misfit(settings: Settings, suite: Suite, march: March, model: ModelFacts) -> str | None:
    """Key, value and reason of a setting that model or march does not support; None if all are supported."""
    if settings.int16.kind is not Int16Kind.NONE and not _has_int16(march):
        allowed = ", ".join(march.value for march in March if _has_int16(march))
        return f"int16: {settings.int16.label}: march {march.value} has no int16; allowed on {allowed}"
    if settings.input_type_rt is not None and settings.input_type_rt not in model.input_types:
        allowed = ", ".join(kind.value for kind in model.input_types)
        return f"input_type_rt: {settings.input_type_rt.value!r}: the model cannot take this format; allowed: {allowed}"
    offered = model.calibration_samples
    if (settings.calibration_samples or 0) > offered:
        return f"calibration_samples: {settings.calibration_samples}: the model's card has {offered}"
    wanted = settings.calibration_samples or suite.calibration_samples or offered
    if settings.calibration_seed is not None and wanted >= offered:
        return (
            f"calibration_seed: {settings.calibration_seed}: there is no choice, because all {offered} samples "
            "are taken"
        )
    return None


def select(patterns: Sequence[str], tags_of: Mapping[str, Iterable[str]]) -> list[str]:
    """Names of the models that ``patterns`` select, in the order of the patterns, each once.

    Raises:
        ConfigError: a pattern selects nothing.
    """
    selected: list[str] = []
    for pattern in patterns:
        kind, _, value = pattern.partition(":")
        if kind in SELECTORS:
            labels = {name: _labels(kind, tags) for name, tags in tags_of.items()}
            found = [name for name in sorted(labels) if fnmatch.filter(labels[name], value)]
            if not found:
                raise unknown(kind, value, {label for own in labels.values() for label in own})
        else:
            found = sorted(fnmatch.filter(tags_of, pattern))
            if not found:
                raise unknown("model", pattern, tags_of)
        selected += found
    return list(dict.fromkeys(selected))


def _labels(kind: str, tags: Iterable[str]) -> list[str]:
    """Of ``tags``, those of ``kind`` (written ``kind:value``), without it; tags proper have no kind."""
    if kind == "tag":
        return [tag for tag in tags if ":" not in tag]
    return [tag.removeprefix(f"{kind}:") for tag in tags if tag.startswith(f"{kind}:")]


def _has_int16(march: March) -> bool:
    return load_chip(march.value).int16
