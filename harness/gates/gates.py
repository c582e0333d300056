"""Gates: is a trial as good as its accepted baseline?

A baseline is reviewed data: value, tolerance and, where someone chose them, the reason. Accuracy is compared on
*paired* predictions, so that noise of the evaluation data does not count. What is better than the baseline beyond
tolerance does not pass either: an improvement that nobody explains is a change that nobody understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from engine.errors import ConfigError
from engine.ir import write_atomically
from harness import paths
from harness.metrics import METRICS
from harness.strict_yaml import StrictModel
from harness.suites.suite import Gates, Suite, Tolerances
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

_PERMUTATIONS = 10_000
_SEED = 0
_DIGITS = 3

ACCURACY = "accuracy.quantized"

_DIRECTIONS: Mapping[str, int] = {
    "cosine.output": 1,
    "cosine.min": 1,
    "latency.ms": -1,
    "ddr.mb": -1,
    "cpu_nodes": -1,
    "subgraphs": -1,
}
"""Gated figures besides accuracy; 1 where more is better."""


class Verdict(StrEnum):
    """Outcome of a gate, the worst last."""

    PASS = "PASS"
    IMPROVEMENT = "IMPROVEMENT"
    MISSING = "MISSING"
    REGRESSION = "REGRESSION"
    ERROR = "ERROR"


_SEVERITY = {verdict: severity for severity, verdict in enumerate(Verdict)}


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
        return self

    @classmethod
    def of(cls, scores: NDArray[np.float64]) -> Scores:
        """``scores``, 0..1, shape (samples,)."""
        if np.isin(scores, (0.0, 1.0)).all():
            return cls(count=len(scores), bits=np.packbits(scores.astype(bool)).tobytes().hex())
        return cls(count=len(scores), thousandths=tuple(np.rint(scores * 10**_DIGITS).astype(int).tolist()))

    def array(self) -> NDArray[np.float64]:
        """float64, shape (samples,)."""
        if self.thousandths is not None:
            return np.asarray([value / 10**_DIGITS for value in self.thousandths], np.float64)
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


class BaselineTrial(StrictModel):
    """What was accepted of one trial.

    Attributes:
        data: digest of the data set; other data cannot be paired.
        figures: by name.
        scores: per evaluation sample.
        expected_failure: instead of figures.
    """

    data: str = ""
    figures: Mapping[str, Reference] = Field(default_factory=dict)
    scores: Scores | None = None
    expected_failure: ExpectedFailure | None = None


class Baseline(StrictModel):
    """Accepted results of a suite.

    Attributes:
        format: version of this structure.
        suite, version: what it belongs to.
        trials: by trial id.
    """

    format: Literal[1] = 1
    suite: str
    version: int
    trials: Mapping[str, BaselineTrial] = Field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One figure against its reference.

    Attributes:
        name: of the figure.
        verdict: of this figure.
        message: figures and limits in words.
    """

    name: str
    verdict: Verdict
    message: str


@dataclass(frozen=True)
class TrialVerdict:
    """A trial against its baseline."""

    trial: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all checks."""
        return worst(check.verdict for check in self.checks)

    @property
    def message(self) -> str:
        """What keeps it from passing, one line per check; empty if it passes."""
        return "\n".join(f"{c.name}: {c.verdict}: {c.message}" for c in self.checks if c.verdict is not Verdict.PASS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of ``verdicts``; PASS if there are none."""
    return max(verdicts, key=_SEVERITY.__getitem__, default=Verdict.PASS)


def baseline_path(suite: str) -> Path:
    """Where the accepted baseline of a suite is."""
    return paths.reports() / "baselines" / f"{suite}.json"


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


def updated_baseline(old: Baseline | None, suite: Suite, results: Sequence[TrialResult], store: TrialStore) -> Baseline:
    """``results`` as the new baseline; tolerances with a reason, and expected failures that still fail, are kept.

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
        )
    return Baseline(suite=suite.name, version=suite.version, trials=trials)


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
    for name in (ACCURACY, *_DIRECTIONS):
        if name not in metrics:  # an engine without a BPU has no latency
            continue
        old = before.figures.get(name) if before else None
        chosen = old if old is not None and old.reason else None
        value = round(metrics[name], 9)
        figures[name] = Reference(
            value=value,
            tolerance=chosen.tolerance if chosen else _tolerance(name, value, tolerances),
            spread=spreads.get(name, 0.0),
            reason=chosen.reason if chosen else "",
        )
    scores = store.predictions(result.spec.key)["per_sample"]
    return BaselineTrial(data=result.spec.data, figures=figures, scores=Scores.of(scores))


def _tolerance(name: str, value: float, tolerances: Tolerances) -> float:
    match name:
        case "accuracy.quantized":
            return tolerances.accuracy
        case "cosine.output":
            return tolerances.cosine
        case "cosine.min":
            return tolerances.cosine_min
        case "latency.ms":
            return round(tolerances.latency * value, 9)
        case "ddr.mb":
            return round(tolerances.ddr * value, 9)
        case "cpu_nodes":
            return tolerances.cpu_nodes
        case _:
            return tolerances.subgraphs


def judge_sweep(
    results: Sequence[TrialResult],
    baseline: Baseline | None,
    gates: Gates,
    store: TrialStore,
    planned: Sequence[TrialSpec] = (),
) -> list[TrialVerdict]:
    """Verdicts of all trials of a suite, those ``planned`` without a result included, and of other baseline entries."""
    verdicts = [judge(result, store.predictions(result.spec.key), baseline, gates) for result in results]
    have = {result.spec.id for result in results}
    for spec in planned:
        if spec.id not in have:
            text = "not computed: the suite's budget was used up; run it again"
            verdicts.append(TrialVerdict(spec.id, (Check("trial", Verdict.MISSING, text),)))
            have.add(spec.id)
    if baseline is not None:
        verdicts += [missing_trial(name) for name in baseline.trials if name not in have]
    return verdicts


def missing_trial(name: str) -> TrialVerdict:
    """The verdict on a baseline entry that no trial of the suite belongs to."""
    text = "the baseline has this trial, the suite does not; remove it with --ptqlab-update-baseline"
    return TrialVerdict(name, (Check("trial", Verdict.MISSING, text),))


def judge(
    result: TrialResult,
    predictions: Mapping[str, NDArray[Any]],
    baseline: Baseline | None,
    gates: Gates,
    today: date | None = None,
) -> TrialVerdict:
    """A trial against its baseline; without one, whether it has figures and keeps the suite's floor.

    Args:
        result: of the trial.
        predictions: arrays that the store keeps of it.
        baseline: of the suite; None if it has none.
        gates: of the suite.
        today: for expected failures; None for now.
    """
    spec, accepted = result.spec, baseline.trials.get(result.spec.id) if baseline else None
    expected = accepted.expected_failure if accepted else None
    if result.failure is not None:
        return TrialVerdict(spec.id, (_judge_failure(result, expected, today or date.today()),))
    if expected is not None:
        text = f"expected to fail ({expected.reason}), but has figures"
        return TrialVerdict(spec.id, (Check("trial", Verdict.IMPROVEMENT, text),))
    checks = _floor(result, gates)
    if baseline is None:
        return TrialVerdict(spec.id, tuple(checks))
    if accepted is None:
        text = "not in the baseline; review its figures and use --ptqlab-update-baseline"
        return TrialVerdict(spec.id, (*checks, Check("trial", Verdict.MISSING, text)))
    checks.append(_judge_accuracy(result, predictions, accepted, gates))
    metrics = result.metrics()
    for name, direction in _DIRECTIONS.items():
        if name in metrics or name in accepted.figures:
            checks.append(_judge_figure(name, direction, metrics.get(name), accepted.figures.get(name), gates))
    return TrialVerdict(spec.id, tuple(checks))


def _judge_failure(result: TrialResult, expected: ExpectedFailure | None, today: date) -> Check:
    failure = result.failure
    text = "" if failure is None else f"stage {failure.stage}: {failure.symptom.value}: {failure.message}"
    if expected is None:
        return Check("trial", Verdict.ERROR, text)
    if today > expected.until:
        return Check("trial", Verdict.ERROR, f"expected to fail until {expected.until} only: {text}")
    return Check("trial", Verdict.PASS, f"fails as expected until {expected.until}: {expected.reason}")


def _floor(result: TrialResult, gates: Gates) -> list[Check]:
    """The least accuracy as a share of the float model's."""
    if gates.min_ratio is None or result.accuracy is None:
        return []
    ratio = result.accuracy.ratio
    verdict = Verdict.PASS if ratio >= gates.min_ratio else Verdict.REGRESSION
    return [Check("accuracy.ratio", verdict, f"{ratio:.4f} of float, the suite's floor is {gates.min_ratio:g}")]


def _judge_figure(name: str, direction: int, value: float | None, reference: Reference | None, gates: Gates) -> Check:
    if reference is None or value is None:
        where = "the baseline" if reference is None else "the trial's result"
        return Check(name, Verdict.MISSING, f"not in {where}")
    difference = (value - reference.value) * direction
    # Figures are kept with nine digits: rounding alone is no difference.
    verdict = _by_sign(difference) if abs(difference) > reference.allowed(gates) + 1e-9 else Verdict.PASS
    return Check(name, verdict, f"{value:.6g}, baseline {reference}")


def _judge_accuracy(
    result: TrialResult, predictions: Mapping[str, NDArray[Any]], accepted: BaselineTrial, gates: Gates
) -> Check:
    """Paired where baseline and trial scored the same samples; else by standard errors."""
    reference, accuracy = accepted.figures.get(ACCURACY), result.accuracy
    if reference is None or accuracy is None:
        return Check(ACCURACY, Verdict.MISSING, "not in the baseline")
    direction = 1 if METRICS[accuracy.metric].higher_is_better else -1
    difference = (accuracy.value - reference.value) * direction
    text = f"{accuracy.value:.4f}, baseline {reference}"
    scores = predictions.get("per_sample")
    if _can_pair(result.spec, accepted, scores) and accepted.scores is not None and scores is not None:
        p = paired_p_value((scores - accepted.scores.array()) * direction * np.sign(difference))
        beyond = abs(difference) > reference.allowed(gates) + 1e-9 and p < gates.significance
        text += f"; paired test p = {p:.3g}, significant below {gates.significance:g}"
    else:
        allowed = reference.allowed(gates) + gates.stderrs * accuracy.stderr
        beyond = abs(difference) > allowed
        text += f"; other evaluation data: {gates.stderrs:g} standard errors are {gates.stderrs * accuracy.stderr:.4f}"
    return Check(ACCURACY, _by_sign(difference) if beyond else Verdict.PASS, text)


def _can_pair(spec: TrialSpec, accepted: BaselineTrial, scores: NDArray[Any] | None) -> bool:
    same_count = accepted.scores is not None and scores is not None and accepted.scores.count == len(scores)
    return same_count and accepted.data == spec.data


def _by_sign(difference: float) -> Verdict:
    return Verdict.IMPROVEMENT if difference > 0 else Verdict.REGRESSION


def paired_p_value(differences: NDArray[np.float64]) -> float:
    """Probability of a mean at least this great if every difference might as well have had the other sign.

    One-sided. Exact (McNemar, binomial) where all differences other than 0 are equally large; else from 10,000 random
    sign changes, the same ones every time.

    Args:
        differences: per sample, shape (samples,).
    """
    changed = differences[np.abs(differences) > 0.5 * 10**-_DIGITS]  # what a baseline's rounding leaves is no change
    if not len(changed):
        return 1.0
    magnitudes = np.abs(changed)
    if magnitudes.max() - magnitudes.min() < 1e-12:
        from scipy.stats import binomtest  # slow to import, and rarely needed

        return float(binomtest(int((changed > 0).sum()), len(changed), alternative="greater").pvalue)
    random = np.random.RandomState(_SEED)
    signs = random.randint(2, size=(_PERMUTATIONS, len(changed)), dtype=np.int8) * np.int8(2) - np.int8(1)
    sums = signs.astype(np.float64) @ magnitudes
    return float((1 + (sums >= changed.sum() - 1e-12).sum()) / (_PERMUTATIONS + 1))
