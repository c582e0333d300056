"""Suites: which models, settings and data a sweep covers, as typed, versioned YAML.

A sweep is a grid over settings; a combination that means nothing is left out there, with its reason: ``mse_thresholds``
beside ``mix``, int16 on a march without it. A value that no combination can use is an error. Explicit ``trials`` stand
beside the grid and must mean something.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from engine.chips import DEFAULT_MARCH, March
from engine.errors import ConfigError, hint
from harness.extensions import TRACKERS
from harness.files import paths
from harness.files.strict_yaml import StrictModel, parse, read_mapping, unknown
from harness.suites.grid import Grid, Values, as_list
from harness.suites.settings import Settings


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
        min_agreement: least agreement with the float model's decisions; None for no such floor.
        min_cosine: least mean cosine of any output, or of any part of one that the metric knows (boxes, classes); None
            for no such floor.
        tolerances: for figures that enter the baseline; the baseline file keeps them, where they can be reviewed.
    """

    significance: float = Field(default=0.05, gt=0, lt=1)
    stderrs: float = Field(default=2.0, gt=0)
    spreads: float = Field(default=4.0, ge=0)
    min_ratio: float | None = Field(default=None, gt=0)
    min_agreement: float | None = Field(default=None, gt=0, le=1)
    min_cosine: float | None = Field(default=None, gt=0, le=1)
    tolerances: Tolerances = Tolerances()


class Budget(StrictModel):
    """Where one run of the suite stops; the same command goes on from there.

    Attributes:
        trials: number of trials to compute; None for all.
        minutes: time after which no further trial is started; None for no limit.
        minutes_per_trial: that a trial may take before it counts as hung; None for the command's limit.
    """

    trials: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)
    minutes_per_trial: float | None = Field(default=None, gt=0)


class ShipPolicy(StrEnum):
    """Which trials are built by the user's own toolchain and compared with what was measured.

    Attributes:
        VERIFY: the recommended setting of every model and march.
        VERIFY_ALL: every trial of the bundled engine.
    """

    VERIFY = "verify"
    VERIFY_ALL = "verify_all"


class Suite(StrictModel):
    """A sweep definition.

    Attributes:
        name: of the suite; names the record of its sweeps (of MLflow the experiment) and the baseline.
        version: raised whenever the meaning changes.
        description: one sentence.
        include: other suites, by file beside this one or by name, whose keys count where this one does not have them;
            lists of explicit trials add up.
        models: names, globs (``mnist_*``), ``tag:…``, ``task:…`` or ``dataset:…``, globs there too.
        march: BPU architectures.
        calibration_samples: number of samples from the start of each model's calibration split; None for all.
        evaluation_samples: the same number of the evaluation split.
        sweep: the grid; None for explicit trials only.
        trials: beside the grid.
        gates: when results count as good.
        budget: where one run stops.
        tracker: where sweeps are recorded: ``mlflow``, ``jsonl``, or a registered one
            (:data:`harness.extensions.TRACKERS`); None for MLflow, and for JSON lines where it is not installed.
        ship: which trials are built by the user's own toolchain (``PTQLAB_HB_MAPPER``) and compared; None for none.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100)
    version: int = Field(ge=1)
    description: str = ""
    include: Values[str] | None = None
    models: Values[str]
    march: Values[March] = (DEFAULT_MARCH,)
    calibration_samples: int | None = Field(default=None, ge=1)
    evaluation_samples: int | None = Field(default=None, ge=1)
    sweep: Grid | None = None
    trials: tuple[ExplicitTrial, ...] = ()
    gates: Gates = Gates()
    budget: Budget = Budget()
    tracker: str | None = None
    ship: ShipPolicy | None = None

    @field_validator("tracker")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None and name not in TRACKERS.allowed():
            raise ValueError(
                f"unknown tracker{hint(name, TRACKERS.allowed())} Allowed: {', '.join(TRACKERS.allowed())}"
            )
        return name

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
    names = as_list(content.get("include") or ())
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
