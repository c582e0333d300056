"""A trial as a run of MLflow: a short name, swept settings as params, the most important figures first.

MLflow's pages list params and metrics by name. The four most important figures have names of their own
(:data:`FIRST`); all others begin with ``more.``, times with ``seconds.``, so that they are listed last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.suites.settings import Int16Policy, Settings
from harness.suites.suite import Suite
from harness.trials.trial import TrialResult, TrialSpec

FIRST: Mapping[str, str] = {
    "accuracy": "accuracy.quantized",
    "cosine": "cosine.output",
    "delta": "accuracy.delta",
    "latency_ms": "latency.total_ms",
}
"""Figures of :meth:`harness.trials.trial.TrialResult.metrics` that have a name of their own in MLflow."""

_MOST_MODELS = 20
"""Models up to which a sweep's run has figures of each."""

_NAME_LENGTH = 60


def swept(suite: Suite) -> tuple[str, ...]:
    """Settings in which trials of ``suite`` differ, in the order of :class:`Settings`."""
    found = []
    for name, field in Settings.model_fields.items():
        values = list(getattr(suite.sweep, name)) if suite.sweep is not None else []
        values += [getattr(trial, name) for trial in suite.trials]
        if len(dict.fromkeys(map(_text, values))) > 1 or (len(values) == 1 and values[0] != field.default):
            found.append(name)
    return tuple(found)


def params(spec: TrialSpec, names: Iterable[str]) -> dict[str, str]:
    """Model, march and the settings ``names``: what varies, the same params for every trial of a suite."""
    settings = {name: _text(getattr(spec.settings, name)) for name in names}
    if "calibration_samples" in settings:
        settings["calibration_samples"] = str(spec.calibration_samples)
    if settings.get("input_type_rt") == "none":
        settings["input_type_rt"] = "card"
    if settings.get("calibration_seed") == "none":
        settings["calibration_seed"] = "first"
    return {"model": spec.model, "march": spec.march.value, **settings}


def metrics(result: TrialResult) -> dict[str, float]:
    """All figures and times of a trial, under the names that MLflow has them."""
    figures = result.metrics()
    first = {name: figures.pop(figure) for name, figure in FIRST.items() if figure in figures}
    more = {f"more.{name}": value for name, value in figures.items()}
    return first | more | {f"seconds.{stage}": value for stage, value in result.seconds.items()}


def run_name(spec: TrialSpec, sweep: str, suite: Suite) -> str:
    """Short, and unique in the experiment: the setting, the model where there are several, the sweep's first digits.

    Args:
        spec: the trial.
        sweep: id of the sweep.
        suite: that is swept.
    """
    several = suite.models != (spec.model,)
    march = spec.march.value if len(suite.march) > 1 else ""
    text = " ".join(part for part in (spec.model if several else "", march, spec.settings.label) if part)
    if len(text) > _NAME_LENGTH:
        text = f"{text[: _NAME_LENGTH - 7]}~{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return f"{text} #{sweep[:4]}"


def sweep_metrics(results: Sequence[TrialResult]) -> dict[str, float]:
    """Best and mean figures of a sweep, for plots over nights; where there are several models, of each as well."""
    models = list(dict.fromkeys(result.spec.model for result in results if result.ok))
    found = _best_and_mean(results, "")
    if 1 < len(models) <= _MOST_MODELS:
        for model in models:
            found |= _best_and_mean([result for result in results if result.spec.model == model], f".{model}")
    return found


def _best_and_mean(results: Sequence[TrialResult], suffix: str) -> dict[str, float]:
    accuracies = [result.accuracy for result in results if result.accuracy is not None]
    if not accuracies:
        return {}
    found = {f"sweep.{name}.mean{suffix}": _mean(results, figure) for name, figure in FIRST.items()}
    best = max(accuracies, key=lambda accuracy: accuracy.goodness)
    found |= {f"sweep.accuracy.best{suffix}": best.value, f"sweep.delta.best{suffix}": best.delta}
    return {name: value for name, value in found.items() if not np.isnan(value)}


def _mean(results: Sequence[TrialResult], figure: str) -> float:
    values = [figures[figure] for result in results if figure in (figures := result.metrics())]
    return float(np.mean(values)) if values else float("nan")


def _text(value: object) -> str:
    if isinstance(value, Int16Policy):
        return value.label.removeprefix("int16.") or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(getattr(value, "value", value))


def trials_digest(specs: Iterable[TrialSpec]) -> str:
    """Equal for sweeps of the same trials, whose results are the same."""
    return hashlib.sha256(" ".join(sorted(spec.key for spec in specs)).encode()).hexdigest()[:32]
