"""Suites: which models, settings and data a sweep covers, as typed, versioned YAML.

A sweep is a grid over settings; an axis that means nothing beside another value is left out there: ``max_percentile``
without ``max``, int16 on a march without it. Explicit ``trials`` stand beside the grid and must mean something.
"""

from __future__ import annotations

import fnmatch
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from engine.errors import ConfigError
from engine.march import load_march as load_march
from engine.terms import CalibrationType, InputType, March
from harness import paths
from harness.strict_yaml import StrictModel, parse, read_mapping, unknown
from harness.suites.settings import Engine, Int16, Int16Kind, Int16Policy, Settings

SELECTORS = ("tag", "task", "dataset")
"""What models can be selected by besides their name, as in ``task:detection``; the name of a tag goes without."""


def _as_list(value: Any) -> Any:
    """One value is a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


E = TypeVar("E")
Values = Annotated[tuple[E, ...], BeforeValidator(_as_list), Field(min_length=1)]
"""One value, or a list of values."""


class Grid(StrictModel):
    """Values per axis; every combination that means something is a trial. Axes are those of :class:`Settings`."""

    calibration_type: Values[CalibrationType] = (CalibrationType.MAX,)
    max_percentile: Values[Annotated[float, Field(gt=0, le=1)]] = (1.0,)
    per_channel: Values[bool] = (False,)
    asymmetric: Values[bool] = (False,)
    bias_correction: Values[bool] = (False,)
    order_independent_kl: Values[bool] = (False,)
    mse_thresholds: Values[bool] = (False,)
    nodewise_methods: Values[bool] = (False,)
    adaptive_rounding: Values[bool] = (False,)
    mean_bias_correction: Values[bool] = (False,)
    int16: Values[Int16] = (Int16Policy(),)
    input_type_rt: Values[InputType | None] = (None,)
    calibration_samples: Values[Annotated[int, Field(ge=1)] | None] = (None,)
    calibration_seed: Values[Annotated[int, Field(ge=0)] | None] = (None,)
    engine: Values[Engine] = (Engine.BUNDLED,)

    def settings(self) -> list[Settings]:
        """All combinations that mean something, in the order of the axes, each once."""
        axes = list(Grid.model_fields)
        found = []
        for values in itertools.product(*(getattr(self, axis) for axis in axes)):
            combination = dict(zip(axes, values, strict=True))
            if combination["calibration_type"] is not CalibrationType.MAX:
                combination["max_percentile"] = 1.0
            with suppress(ValidationError):  # a combination without a meaning
                found.append(Settings(**combination))
        return list(dict.fromkeys(found))


class ExplicitTrial(Settings):
    """A trial beside the grid.

    Attributes:
        models: selection as in the suite; None for all of the suite's models.
        march: None for all of the suite's.
    """

    models: Values[str] | None = None
    march: Values[March] | None = None

    @property
    def settings(self) -> Settings:
        """What is varied."""
        return Settings.model_validate({name: getattr(self, name) for name in Settings.model_fields})


class Tolerances(StrictModel):
    """How far a figure may lie from its baseline, either way, before the gate says REGRESSION or IMPROVEMENT.

    Attributes:
        accuracy: of the metric, 0..1, on top of the paired test.
        cosine: of the mean output cosine.
        cosine_min: of the least output cosine of a sample, which varies more.
        latency: share of the baseline.
        ddr: share of the baseline.
        cpu_nodes: count.
        subgraphs: count.
    """

    accuracy: float = Field(default=0.0, ge=0)
    cosine: float = Field(default=1e-4, ge=0)
    cosine_min: float = Field(default=1e-4, ge=0)
    latency: float = Field(default=0.01, ge=0)
    ddr: float = Field(default=0.01, ge=0)
    cpu_nodes: int = Field(default=0, ge=0)
    subgraphs: int = Field(default=0, ge=0)


class Gates(StrictModel):
    """When a trial of the suite counts as good.

    Attributes:
        significance: error probability of the paired, one-sided test of accuracy.
        stderrs: where predictions cannot be paired: standard errors that accuracy may differ by.
        spreads: where the suite draws calibration images more than once (axis ``calibration_seed``): standard
            deviations over its draws that any figure may differ by, on top of its tolerance.
        min_ratio: least quantised accuracy as a share of the float model's; None for no such floor.
        tolerances: for figures that enter the baseline; the baseline file keeps them, where they can be reviewed.
    """

    significance: float = Field(default=0.05, gt=0, lt=1)
    stderrs: float = Field(default=2.0, gt=0)
    spreads: float = Field(default=4.0, ge=0)
    min_ratio: float | None = Field(default=None, gt=0)
    tolerances: Tolerances = Tolerances()


class Budget(StrictModel):
    """Where one run of the suite stops; the same command goes on from there.

    Attributes:
        trials: so many are computed; None for all.
        minutes: after so many, none is begun; None for no limit.
        minutes_per_trial: that a trial may take before it counts as hung; None for the command's limit.
    """

    trials: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    minutes_per_trial: float | None = Field(default=None, gt=0)


class Suite(StrictModel):
    """A sweep definition.

    Attributes:
        name: of the suite; names the MLflow experiment and the baseline.
        version: raised whenever the meaning changes.
        description: one sentence.
        include: other suites, by file beside this one or by name, whose keys count where this one does not have them;
            lists of explicit trials add up.
        models: names, globs (``mnist_*``), ``tag:…``, ``task:…`` or ``dataset:…``, globs there too.
        march: BPU architectures.
        calibration_samples: first so many samples of each model's calibration split; None for all.
        evaluation_samples: likewise of the evaluation split.
        sweep: the grid; None for explicit trials only.
        trials: beside the grid.
        gates: when results count as good.
        budget: where one run stops.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    version: int = Field(ge=1)
    description: str = ""
    include: Values[str] | None = None
    models: Values[str]
    march: Values[March] = (March.BAYES_E,)
    calibration_samples: int | None = Field(default=None, ge=1)
    evaluation_samples: int | None = Field(default=None, ge=1)
    sweep: Grid | None = None
    trials: tuple[ExplicitTrial, ...] = ()
    gates: Gates = Gates()
    budget: Budget = Budget()

    @model_validator(mode="after")
    def _has_trials(self) -> Self:
        if self.sweep is None and not self.trials:
            raise ValueError("a suite needs 'sweep', 'trials' or both")
        return self


class Point(StrictModel):
    """One point of an expanded suite: what to convert, for which march, how."""

    model: str
    march: March
    settings: Settings

    @property
    def id(self) -> str:
        """Readable and unique within a suite: ``mnist_lenet/bayes-e/max-0.9999``."""
        return f"{self.model}/{self.march.value}/{self.settings.label}"


def open_suite(name: str) -> Suite:
    """The suite in the file ``name``, or the bundled one of that name.

    Raises:
        ConfigError: there is none, or the file is wrong.
    """
    path = suite_path(name)
    suite = parse(_with_included(path, ()), Suite, str(path))
    if path.parent in paths.suites() and suite.name != path.stem:
        raise ConfigError(f"{path}: name: {suite.name!r}: must be the file's name, {path.stem!r}")
    return suite


def _with_included(path: Path, including: tuple[Path, ...]) -> dict[str, Any]:
    """The content of ``path`` over that of the files it includes, later ones over earlier ones."""
    if path in including:
        raise ConfigError(f"{path}: include: the file includes itself, by way of {including[-1]}")
    content = read_mapping(path, Suite)
    names = _as_list(content.get("include") or ())
    merged: dict[str, Any] = {}
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"{path}: include: {name!r}: expected the name or file of a suite")
        beside = path.parent / name
        try:
            found = beside if beside.is_file() else suite_path(name)
        except ConfigError as error:
            raise ConfigError(f"{path}: include: {error}") from error
        included = _with_included(found, (*including, path))
        merged = _over(included, merged)
    return _over(content, merged)


def _over(content: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """``content`` with the keys of ``base`` that it lacks, and all ``trials``."""
    merged = {**base, **content}
    trials = [mapping.get("trials") for mapping in (base, content)]
    if all(isinstance(part, list) for part in trials):
        merged["trials"] = [trial for part in trials if part for trial in part]
    return merged


def suite_path(name: str) -> Path:
    """File of the suite ``name``: a path to a YAML file, or the name of a bundled suite.

    Raises:
        ConfigError: there is neither.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.parent != Path("."):
        if not path.is_file():
            raise ConfigError(f"{path}: no such suite file")
        return path
    bundled = bundled_suites()
    if name not in bundled:
        raise unknown("suite", name, bundled)
    return bundled[name]


def bundled_suites() -> dict[str, Path]:
    """Files of the suites that have a name: those in folders of ``PTQLAB_SUITES``, and the bundled ones."""
    return paths.yaml_files(paths.suites())


@dataclass(frozen=True)
class ModelFacts:
    """What an expansion asks of a model.

    Attributes:
        labels: its tags, ``task:…`` and ``dataset:…``.
        input_types: colour formats that it can be fed with at run time.
        calibration_samples: how many its card offers.
    """

    labels: Sequence[str] = ()
    input_types: Sequence[InputType] = tuple(InputType)
    calibration_samples: int = sys.maxsize


def expand(suite: Suite, models: Mapping[str, ModelFacts], where: str | None = None) -> list[Point]:
    """All points of the suite, in order, each once: by model, then march, the grid before explicit trials.

    Args:
        suite: the suite.
        models: all that there are, by name.
        where: what messages call the suite; None for its name.

    Raises:
        ConfigError: a selection matches no model, a trial asks of a model or march what it does not have, or nothing
            is left.
    """
    where = where or f"suite {suite.name}"
    points = [
        Point(model=model, march=march, settings=settings)
        for model in _selected(suite.models, models, f"{where}: models")
        for march in suite.march
        for settings in (suite.sweep.settings() if suite.sweep else ())
        if _misfit(settings, suite, march, models[model]) is None
    ]
    for index, trial in enumerate(suite.trials):
        for model in _selected(trial.models or suite.models, models, f"{where}: trials.{index}.models"):
            for march in trial.march or suite.march:
                misfit = _misfit(trial, suite, march, models[model])
                if misfit is not None:
                    raise ConfigError(f"{where}: trials.{index}.{misfit} (model {model}, march {march.value})")
                points.append(Point(model=model, march=march, settings=trial.settings))
    if not points:
        raise ConfigError(f"{where}: sweep: leaves no trial on march {', '.join(suite.march)}")
    order = list(dict.fromkeys(name for point in points for name in (point.model, point.march)))
    return sorted(dict.fromkeys(points), key=lambda point: (order.index(point.model), order.index(point.march)))


def _selected(patterns: Sequence[str], models: Mapping[str, ModelFacts], where: str) -> list[str]:
    try:
        return select(patterns, {name: facts.labels for name, facts in models.items()})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _misfit(settings: Settings, suite: Suite, march: March, model: ModelFacts) -> str | None:
    """Key, value and reason of what ``settings`` ask in vain; None where model and march have it all."""
    if settings.int16.kind is not Int16Kind.NONE and not _has_int16(march):
        allowed = ", ".join(march.value for march in March if _has_int16(march))
        return f"int16: {settings.int16.label}: march {march.value} has no int16; allowed on {allowed}"
    if settings.input_type_rt is not None and settings.input_type_rt not in model.input_types:
        allowed = ", ".join(kind.value for kind in model.input_types)
        return (
            f"input_type_rt: {settings.input_type_rt.value!r}: not what the model can be fed with; allowed: {allowed}"
        )
    offered = model.calibration_samples
    if (settings.calibration_samples or 0) > offered:
        return f"calibration_samples: {settings.calibration_samples}: the model's card has {offered}"
    wanted = settings.calibration_samples or suite.calibration_samples or offered
    if settings.calibration_seed is not None and wanted >= offered:
        return f"calibration_seed: {settings.calibration_seed}: nothing to choose, all {offered} samples are taken"
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
    return load_march(march.value).int16
