"""Baselines: accepted figures and scores of a suite's trials, as reviewed data in a file.

A figure has a value, a tolerance and, where someone chose them, the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness.files import paths
from harness.files.strict_yaml import StrictModel
from harness.gates.made import Made, Resampled, made_of
from harness.metrics.resampling import RESAMPLES
from harness.shipping.record import SHIP, load_shipped
from harness.suites.suite import Gates, Suite, Tolerances
from harness.trials.origins import Environment, ModelOrigin, SweepOrigin
from harness.trials.trial import PART, TrialResult, TrialSpec, TrialStore

SCORE_DIGITS = 3
"""Decimals that a baseline keeps of a score that is neither 0 nor 1."""

_HEXADECIMAL = frozenset("0123456789abcdef")
ACCURACY = "accuracy.quantized"

DIRECTIONS: Mapping[str, int] = {
    "cosine.output": 1,
    "cosine.min": 1,
    "latency.ms": -1,
    "latency.total_ms": -1,
    "ddr.mb": -1,
    "cpu_nodes": -1,
    "subgraphs": -1,
}
"""Gated figures besides accuracy and cosines of parts; 1 where more is better."""


def gated(figures: Iterable[str]) -> dict[str, int]:
    """The gated members of ``figures`` besides accuracy: the fixed ones, then cosines of parts of outputs."""
    given = list(figures)
    fixed = {name: direction for name, direction in DIRECTIONS.items() if name in given}
    return fixed | {name: 1 for name in given if name.startswith(PART)}


class Scores(StrictModel):
    """Scores per sample, compact: hexadecimal bits where all are 0 or 1, else thousandths.

    Attributes:
        count: number of samples.
        bits: first sample in the highest bit; padded with zeros to whole bytes.
        thousandths: rounded to nearest.
    """

    count: int = Field(ge=0)
    bits: str | None = None
    thousandths: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.bits is None) == (self.thousandths is None):
            raise ValueError("exactly one of bits and thousandths must be given")
        if self.thousandths is not None and len(self.thousandths) != self.count:
            raise ValueError(f"{len(self.thousandths)} thousandths of {self.count} scores")
        digits = 2 * -(-self.count // 8)
        if self.bits is not None and (len(self.bits) != digits or not _HEXADECIMAL.issuperset(self.bits)):
            raise ValueError(f"bits of {self.count} scores are {digits} hexadecimal digits")
        return self

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> Scores:
        """``scores``, 0..1, shape (samples,)."""
        if np.isin(scores, (0.0, 1.0)).all():
            return cls(count=len(scores), bits=np.packbits(scores.astype(bool)).tobytes().hex())
        return cls(count=len(scores), thousandths=tuple(np.rint(scores * 10**SCORE_DIGITS).astype(int).tolist()))

    def array(self) -> NDArray[np.float64]:
        """float64, shape (samples,)."""
        if self.thousandths is not None:
            return np.asarray([value / 10**SCORE_DIGITS for value in self.thousandths], np.float64)
        packed = np.frombuffer(bytes.fromhex(self.bits or ""), np.uint8)
        return np.unpackbits(packed, count=self.count).astype(np.float64)


class Reference(StrictModel):
    """An accepted figure.

    Attributes:
        value: the figure.
        tolerance: how far it may lie from ``value`` either way, in its own unit.
        spread: standard deviation over draws of calibration images; 0 where the suite drew but once. The gate's
            ``spreads`` times as much comes on top of the tolerance.
        reason: why the tolerance, or the value, is what it is; empty for the suite's defaults.
    """

    value: float
    tolerance: float = Field(ge=0)
    spread: float = Field(default=0.0, ge=0)
    reason: str = ""

    def allowed(self, gates: Gates) -> float:
        """How far a figure may lie from ``value``, either way."""
        return self.tolerance + gates.spreads * self.spread

    def __str__(self) -> str:
        drawn = f", spread over draws {self.spread:.3g}" if self.spread else ""
        return f"{self.value:.6g} ± {self.tolerance:g}{drawn}{f' ({self.reason})' if self.reason else ''}"


class ExpectedFailure(StrictModel):
    """A trial that is known to fail.

    Attributes:
        reason: why, and who works on it.
        until: last day on which it may.
    """

    reason: str = Field(min_length=1)
    until: date


class AcceptedShip(StrictModel):
    """What the user's toolchain built of a trial.

    Attributes:
        digest: of the integers that were built.
        toolchain: version.
    """

    digest: str
    toolchain: str = ""


class BaselineTrial(StrictModel):
    """What was accepted of one trial.

    Attributes:
        data: digest of the data set; other data cannot be paired.
        figures: by name.
        scores: per evaluation sample.
        resampled: the metric on the shared draws, where it is no mean of ``scores``; None also in files of versions
            that did not keep it, whose scores are of another kind.
        made: how it came about; None in files of versions that did not keep it.
        expected_failure: instead of figures.
        shipped: what was built of it; None where the suite builds nothing.
    """

    data: str = ""
    figures: Mapping[str, Reference] = Field(default_factory=dict)
    scores: Scores | None = None
    resampled: Resampled | None = None
    made: Made | None = None
    expected_failure: ExpectedFailure | None = None
    shipped: AcceptedShip | None = None


class Baseline(StrictModel):
    """Accepted results of a suite.

    Attributes:
        format: version of this structure.
        suite, version: what it belongs to.
        sweep: id of the sweep that it was accepted from.
        models: what the models were, by name; empty in files of versions that did not keep it, as is ``environment``.
        environment: what computed it.
        trials: by trial id.
    """

    format: Literal[1] = 1
    suite: str
    version: int
    sweep: str = ""
    models: Mapping[str, ModelOrigin] = Field(default_factory=dict)
    environment: Environment = Environment()
    trials: Mapping[str, BaselineTrial] = Field(default_factory=dict)


def baseline_path(suite: Path) -> Path:
    """Where the accepted baseline of the suite in the file ``suite`` is: ``baselines/NAME.json`` beside it.

    That of a bundled suite is among the bundled reports.
    """
    folder = paths.reports() if suite.resolve().parent == paths.bundled("suites").resolve() else suite.resolve().parent
    return folder / "baselines" / f"{suite.stem}.json"


def load_baseline(path: Path, suite: Suite) -> Baseline:
    """The accepted baseline of ``suite``.

    Raises:
        ConfigError: the file is missing, wrong, or belongs to another suite or version.
    """
    baseline = read_baseline(path)
    if (baseline.suite, baseline.version) != (suite.name, suite.version):
        raise ConfigError(
            f"{path}: belongs to suite {baseline.suite} version {baseline.version}, expected {suite.name} version "
            f"{suite.version}; review the results and use --ptqlab-update-baseline"
        )
    return baseline


def read_baseline(path: Path) -> Baseline:
    """The baseline in ``path``, whatever suite it belongs to.

    Raises:
        ConfigError: the file is missing or wrong.
    """
    try:
        return Baseline.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: no baseline ({error.strerror}); make one with --ptqlab-update-baseline") from error
    except ValidationError as error:
        where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise ConfigError(f"{path}: is no baseline: {where}") from error


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Write ``baseline``, atomically, one figure per line, so that a review sees what changed."""
    write_atomically(path, (baseline.model_dump_json(indent=1, exclude_defaults=True) + "\n").encode())


def updated_baseline(
    old: Baseline | None,
    suite: Suite,
    results: Sequence[TrialResult],
    store: TrialStore,
    origin: SweepOrigin | None = None,
) -> Baseline:
    """``results`` as the new baseline; tolerances with a reason, and expected failures that still fail, are kept.

    Args:
        old: that it takes the place of; None for a first one.
        suite: that the results belong to.
        results: of all its trials.
        store: has the predictions.
        origin: what the sweep was made from; None if unknown.

    Raises:
        ConfigError: a trial failed that is not expected to.
    """
    trials, spreads = {}, _spreads(results)
    for result in results:
        before = old.trials.get(result.spec.id) if old else None
        if result.failure is not None:
            if before is None or before.expected_failure is None:
                raise ConfigError(
                    f"trial {result.spec.id} failed in stage {result.failure.stage}: {result.failure.message}; "
                    "mend it, or write an expected_failure with reason and date into the baseline"
                )
            trials[result.spec.id] = before
            continue
        trials[result.spec.id] = _accepted(
            result, before, suite.gates.tolerances, spreads[_undrawn(result.spec)], store
        ).model_copy(update={"shipped": _accepted_ship(result, store) if suite.ship is not None else None})
    origin = origin or SweepOrigin()
    return Baseline(
        suite=suite.name,
        version=suite.version,
        sweep=origin.sweep,
        models=origin.models,
        environment=origin.environment,
        trials=trials,
    )


def _spreads(results: Iterable[TrialResult]) -> dict[TrialSpec, dict[str, float]]:
    """Standard deviations of figures over trials that differ in ``calibration_seed`` only, by what they share."""
    draws: dict[TrialSpec, list[dict[str, float]]] = {}
    for result in results:
        if result.ok:
            draws.setdefault(_undrawn(result.spec), []).append(result.metrics())
    return {
        spec: {
            name: round(float(np.std([figures[name] for figures in drawn], ddof=1)), 9)
            for name in drawn[0]
            if len(drawn) > 1 and all(name in figures for figures in drawn)
        }
        for spec, drawn in draws.items()
    }


def _undrawn(spec: TrialSpec) -> TrialSpec:
    """``spec``, whatever images it draws."""
    settings = spec.settings.model_copy(update={"calibration_seed": None})
    return spec.model_copy(update={"settings": settings})


def _accepted(
    result: TrialResult,
    before: BaselineTrial | None,
    tolerances: Tolerances,
    spreads: Mapping[str, float],
    store: TrialStore,
) -> BaselineTrial:
    metrics = result.metrics()
    figures = {}
    for name in (ACCURACY, *gated(metrics)):
        old = before.figures.get(name) if before else None
        chosen = old if old is not None and old.reason else None
        value = round(metrics[name], 9)
        figures[name] = Reference(
            value=value,
            tolerance=chosen.tolerance if chosen else _tolerance(name, value, tolerances),
            spread=spreads.get(name, 0.0),
            reason=chosen.reason if chosen else "",
        )
    predictions = store.predictions(result.spec.key)
    values = predictions.get("resampled")
    return BaselineTrial(
        data=result.spec.data,
        figures=figures,
        scores=Scores.of(predictions["per_sample"]),
        resampled=None if values is None else Resampled.of(values[:RESAMPLES]),
        made=made_of(result, store),
    )


def _accepted_ship(result: TrialResult, store: TrialStore) -> AcceptedShip | None:
    shipped = load_shipped(store.folder(result.spec.key) / SHIP)
    return None if shipped is None else AcceptedShip(digest=shipped.digest, toolchain=shipped.toolchain)


def _tolerance(name: str, value: float, tolerances: Tolerances) -> float:
    match name:
        case "accuracy.quantized":
            return tolerances.accuracy
        case "cosine.output":
            return tolerances.cosine
        case part if part.startswith(PART):
            return tolerances.cosine
        case "cosine.min":
            return tolerances.cosine_min
        case "latency.ms" | "latency.total_ms":
            return round(tolerances.latency * value, 9)
        case "ddr.mb":
            return round(tolerances.ddr * value, 9)
        case "cpu_nodes":
            return tolerances.cpu_nodes
        case _:
            return tolerances.subgraphs
