"""Suites: which models, settings and data a sweep covers, as typed, versioned YAML.

A sweep is a grid over settings; an axis that means nothing beside another value is left out there: ``max_percentile``
without ``max``, int16 on a march without it. Explicit ``trials`` stand beside the grid and must mean something.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from engine.config import CalibrationType, March
from engine.errors import ConfigError
from engine.march import load as load_march
from harness import paths
from harness.cache import content_key
from harness.strict_yaml import StrictModel, load, unknown

TAG_PREFIX = "tag:"
"""What a selection of models by tag begins with."""

_SHORT_LIST = 2
"""So many names of an int16 policy are spelled out in an id."""


class Int16Kind(StrEnum):
    """Which nodes compute with 16-bit activations."""

    NONE = "none"
    ALL = "all"
    NODES = "nodes"
    TYPES = "types"


class Int16Policy(StrictModel):
    """Which nodes are asked to take and give int16; written ``none``, ``all``, ``{nodes: […]}`` or ``{types: […]}``.

    Attributes:
        kind: how nodes are chosen.
        names: of nodes, or operator types, of the optimised graph.
    """

    kind: Int16Kind = Int16Kind.NONE
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Short form for ids: ``int16.all``, ``int16.types(Conv)``; empty for ``none``."""
        if self.kind is Int16Kind.NONE:
            return ""
        if len(self.names) > _SHORT_LIST:
            return f"int16.{self.kind}({len(self.names)}:{content_key(self.names)[:6]})"
        return f"int16.{self.kind}({'+'.join(self.names)})" if self.names else f"int16.{self.kind}"


def _read_policy(value: Any) -> Any:
    """An int16 policy as YAML has it."""
    if isinstance(value, Int16Policy):
        return value
    if isinstance(value, str) and value in (Int16Kind.NONE, Int16Kind.ALL):
        return Int16Policy(kind=Int16Kind(value))
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, names),) = value.items()
        if kind in (Int16Kind.NODES, Int16Kind.TYPES) and _is_list_of_names(names):
            return Int16Policy(kind=Int16Kind(kind), names=tuple(names))
    raise ValueError("allowed are none, all, {nodes: [name, ...]} and {types: [operator type, ...]}")


def _write_policy(policy: Int16Policy) -> str | dict[str, list[str]]:
    return {policy.kind.value: list(policy.names)} if policy.names else policy.kind.value


def _is_list_of_names(names: object) -> bool:
    return isinstance(names, list | tuple) and bool(names) and all(isinstance(name, str) and name for name in names)


Int16 = Annotated[Int16Policy, BeforeValidator(_read_policy), PlainSerializer(_write_policy)]
"""An int16 policy in a YAML or JSON file."""


class Settings(StrictModel):
    """What a sweep varies: the converter's parameters of the same names.

    Attributes:
        calibration_type: how thresholds are chosen.
        max_percentile: of ``max`` only: share of ``|x|`` that the threshold covers, above 0 to 1.
        per_channel: one threshold per channel where that is possible.
        int16: nodes with 16-bit activations.
    """

    calibration_type: CalibrationType = CalibrationType.MAX
    max_percentile: float = Field(default=1.0, gt=0, le=1)
    per_channel: bool = False
    int16: Int16 = Int16Policy()

    @model_validator(mode="after")
    def _percentile_belongs_to_max(self) -> Self:
        if self.calibration_type is not CalibrationType.MAX and self.max_percentile != 1.0:
            raise ValueError(
                f"max_percentile {self.max_percentile} has no meaning with calibration_type "
                f"{self.calibration_type.value!r}; it belongs to 'max'"
            )
        return self

    @property
    def method(self) -> str:
        """Calibration method for tables: ``max-0.9999``."""
        kind = self.calibration_type.value
        return kind if self.max_percentile == 1.0 else f"{kind}-{self.max_percentile!r}"

    @property
    def label(self) -> str:
        """Short form for ids: ``max-0.9999-per_channel-int16.all``."""
        parts = [self.method, "per_channel" if self.per_channel else "", self.int16.label]
        return "-".join(part for part in parts if part)


def _as_list(value: Any) -> Any:
    """One value is a list of one."""
    return value if isinstance(value, list | tuple) else (value,)


class Grid(StrictModel):
    """Values per axis; every combination that means something is a trial."""

    calibration_type: Annotated[tuple[CalibrationType, ...], BeforeValidator(_as_list), Field(min_length=1)] = (
        CalibrationType.MAX,
    )
    max_percentile: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], ...], BeforeValidator(_as_list), Field(min_length=1)
    ] = (1.0,)
    per_channel: Annotated[tuple[bool, ...], BeforeValidator(_as_list), Field(min_length=1)] = (False,)
    int16: Annotated[tuple[Int16, ...], BeforeValidator(_as_list), Field(min_length=1)] = (Int16Policy(),)

    def settings(self) -> list[Settings]:
        """All combinations in the order of the axes, each once."""
        found = []
        for kind, percentile, per_channel, int16 in itertools.product(
            self.calibration_type, self.max_percentile, self.per_channel, self.int16
        ):
            relevant = percentile if kind is CalibrationType.MAX else 1.0
            found.append(Settings(calibration_type=kind, max_percentile=relevant, per_channel=per_channel, int16=int16))
        return list(dict.fromkeys(found))


class ExplicitTrial(Settings):
    """A trial beside the grid.

    Attributes:
        models: selection as in the suite; None for all of the suite's models.
        march: None for all of the suite's.
    """

    models: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)] | None = None
    march: Annotated[tuple[March, ...], BeforeValidator(_as_list), Field(min_length=1)] | None = None

    @property
    def settings(self) -> Settings:
        """What is varied."""
        return Settings.model_validate({name: getattr(self, name) for name in Settings.model_fields})


class Tolerances(StrictModel):
    """How far a figure may lie from its baseline, either way, before the gate says REGRESSION or IMPROVEMENT.

    Attributes:
        accuracy: of the metric, 0..1, on top of the paired test.
        cosine: of mean and least output cosine.
        latency: share of the baseline.
        ddr: share of the baseline.
        cpu_nodes: count.
        subgraphs: count.
    """

    accuracy: float = Field(default=0.0, ge=0)
    cosine: float = Field(default=1e-4, ge=0)
    latency: float = Field(default=0.01, ge=0)
    ddr: float = Field(default=0.01, ge=0)
    cpu_nodes: int = Field(default=0, ge=0)
    subgraphs: int = Field(default=0, ge=0)


class Gates(StrictModel):
    """When a trial of the suite counts as good.

    Attributes:
        significance: error probability of the paired, one-sided test of accuracy.
        stderrs: where predictions cannot be paired: standard errors that accuracy may differ by.
        min_ratio: least quantised accuracy as a share of the float model's; None for no such floor.
        tolerances: for figures that enter the baseline; the baseline file keeps them, where they can be reviewed.
    """

    significance: float = Field(default=0.05, gt=0, lt=1)
    stderrs: float = Field(default=2.0, gt=0)
    min_ratio: float | None = Field(default=None, gt=0)
    tolerances: Tolerances = Tolerances()


class Suite(StrictModel):
    """A sweep definition.

    Attributes:
        name: of the suite; names the MLflow experiment and the baseline.
        version: raised whenever the meaning changes.
        description: one sentence.
        models: names, globs (``mnist_*``) or tags (``tag:classification``).
        march: BPU architectures.
        calibration_samples: first so many samples of each model's calibration split; None for all.
        evaluation_samples: likewise of the evaluation split.
        sweep: the grid; None for explicit trials only.
        trials: beside the grid.
        gates: when results count as good.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    version: int = Field(ge=1)
    description: str = ""
    models: Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
    march: Annotated[tuple[March, ...], BeforeValidator(_as_list), Field(min_length=1)] = (March.BAYES_E,)
    calibration_samples: int | None = Field(default=None, ge=1)
    evaluation_samples: int | None = Field(default=None, ge=1)
    sweep: Grid | None = None
    trials: tuple[ExplicitTrial, ...] = ()
    gates: Gates = Gates()

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
    suite = load(path, Suite)
    if path.parent == paths.suites() and suite.name != path.stem:
        raise ConfigError(f"{path}: name: {suite.name!r}: must be the file's name, {path.stem!r}")
    return suite


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
    """Files of the bundled suites by name."""
    return {path.stem: path for path in sorted(paths.suites().glob("*.yaml"))}


def expand(suite: Suite, tags_of: Mapping[str, Iterable[str]]) -> list[Point]:
    """All points of the suite, in order, each once: by model, then march, the grid before explicit trials.

    Args:
        suite: the suite.
        tags_of: tags by name of every model that there is.

    Raises:
        ConfigError: a selection matches no model, int16 is asked of a march without it, or nothing is left.
    """
    points = [
        Point(model=model, march=march, settings=settings)
        for model in select(suite.models, tags_of)
        for march in suite.march
        for settings in (suite.sweep.settings() if suite.sweep else ())
        if _has_int16(march) or settings.int16.kind is Int16Kind.NONE
    ]
    for index, trial in enumerate(suite.trials):
        for model in select(trial.models or suite.models, tags_of):
            for march in trial.march or suite.march:
                _check_int16(trial, march, f"suite {suite.name}: trials.{index}.int16")
                points.append(Point(model=model, march=march, settings=trial.settings))
    if not points:
        raise ConfigError(f"suite {suite.name}: its sweep leaves no trial on march {', '.join(suite.march)}")
    order = {point.model: position for position, point in reversed(list(enumerate(points)))}
    return sorted(dict.fromkeys(points), key=lambda point: order[point.model])


def select(patterns: Sequence[str], tags_of: Mapping[str, Iterable[str]]) -> list[str]:
    """Names of the models that ``patterns`` select, in the order of the patterns, each once.

    Raises:
        ConfigError: a pattern selects nothing.
    """
    selected: list[str] = []
    for pattern in patterns:
        if pattern.startswith(TAG_PREFIX):
            found = [name for name, tags in sorted(tags_of.items()) if pattern.removeprefix(TAG_PREFIX) in tags]
            if not found:
                tags = {tag for tags in tags_of.values() for tag in tags}
                raise unknown("tag", pattern.removeprefix(TAG_PREFIX), tags)
        else:
            found = sorted(fnmatch.filter(tags_of, pattern))
            if not found:
                raise unknown("model", pattern, tags_of)
        selected += found
    return list(dict.fromkeys(selected))


def _has_int16(march: March) -> bool:
    return load_march(march.value).int16


def _check_int16(trial: ExplicitTrial, march: March, where: str) -> None:
    if trial.int16.kind is not Int16Kind.NONE and not _has_int16(march):
        allowed = ", ".join(march.value for march in March if _has_int16(march))
        raise ConfigError(f"{where}: {trial.int16.label}: march {march.value} has no int16; allowed on {allowed}")
