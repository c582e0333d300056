"""Gates: is a trial as good as its accepted baseline?

Accuracy is compared on *paired* predictions, so that noise of the evaluation data does not count. A result that is
better than the baseline beyond tolerance does not pass either, because an unexplained improvement is an unexplained
change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from numpy.typing import NDArray

from harness.gates.baseline import ACCURACY, Baseline, BaselineTrial, ExpectedFailure, Reference, gated
from harness.gates.paired import MetricEvidence, p_ahead
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.suites.suite import Gates
from harness.trials.trial import TrialResult, TrialSpec, TrialStore


def judge_sweep(
    results: Sequence[TrialResult],
    baseline: Baseline | None,
    gates: Gates,
    store: TrialStore,
    planned: Sequence[TrialSpec] = (),
    anchor: Baseline | None = None,
) -> list[TrialVerdict]:
    """Verdicts of all trials of a suite, those ``planned`` without a result included, and of other baseline entries.

    Args:
        results: of the trials.
        baseline: that they are compared with; None without one.
        gates: of the suite.
        store: has the predictions.
        planned: all trials of the suite.
        anchor: a fixed baseline that no trial may fall behind either, however small the steps; None without one.
    """
    verdicts = []
    for result in results:
        predictions = store.predictions(result.spec.key)
        verdict = judge(result, predictions, baseline, gates)
        if anchor is not None and result.ok:
            checks = losses_since(anchor, result, predictions, gates)
            verdict = TrialVerdict(verdict.trial, (*verdict.checks, *checks))
        verdicts.append(verdict)
    have = {result.spec.id for result in results}
    for spec in planned:
        if spec.id not in have:
            text = "not computed: the suite's budget was used up; run it again"
            verdicts.append(TrialVerdict(spec.id, (Check("trial", Verdict.MISSING, text),)))
            have.add(spec.id)
    if baseline is not None:
        verdicts += [missing_trial(name) for name in baseline.trials if name not in have]
    return verdicts


def losses_since(
    anchor: Baseline, result: TrialResult, predictions: Mapping[str, NDArray[Any]], gates: Gates
) -> tuple[Check, ...]:
    """Checks of a trial against the anchor: losses alone count, since what got better since then was accepted."""
    accepted = anchor.trials.get(result.spec.id)
    if accepted is None or accepted.expected_failure is not None:
        return ()
    checks = [
        _judge_accuracy(result, predictions, accepted, gates),
        *(
            _judge_figure(name, direction, result.metrics().get(name), accepted.figures.get(name), gates)
            for name, direction in gated(accepted.figures).items()
        ),
    ]
    return tuple(
        Check(f"{check.name} since @anchor", check.verdict, check.message.replace("baseline", "anchor"))
        for check in checks
        if check.verdict is Verdict.REGRESSION
    )


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
    checks = [floor.check for floor in floors(result, gates)]
    if baseline is None:
        return TrialVerdict(
            spec.id, (*checks, Check("baseline", Verdict.NO_GATE, "there is no baseline to compare with"))
        )
    if accepted is None:
        text = "not in the baseline; review its figures and use --ptqlab-update-baseline"
        return TrialVerdict(spec.id, (*checks, Check("trial", Verdict.MISSING, text)))
    checks.append(_judge_accuracy(result, predictions, accepted, gates))
    metrics = result.metrics()
    for name, direction in gated([*metrics, *accepted.figures]).items():
        checks.append(_judge_figure(name, direction, metrics.get(name), accepted.figures.get(name), gates))
    return TrialVerdict(spec.id, tuple(checks))


def _judge_failure(result: TrialResult, expected: ExpectedFailure | None, today: date) -> Check:
    failure = result.failure
    text = "" if failure is None else f"stage {failure.stage}: {failure.symptom.value}: {failure.text}"
    if expected is None:
        return Check("trial", Verdict.ERROR, text)
    if today > expected.until:
        return Check("trial", Verdict.ERROR, f"expected to fail until {expected.until} only: {text}")
    return Check("trial", Verdict.PASS, f"fails as expected until {expected.until}: {expected.reason}")


@dataclass(frozen=True)
class Floor:
    """What the suite asks of every trial, whatever its baseline.

    Attributes:
        name: of the figure.
        value: of the trial.
        least: the floor.
        what: behind the value, in words.
    """

    name: str
    value: float
    least: float
    what: str = ""

    @property
    def share(self) -> float:
        """``value`` as a share of the floor; below 1 it fails."""
        return self.value / self.least

    @property
    def check(self) -> Check:
        """As part of a verdict."""
        verdict = Verdict.PASS if self.value >= self.least else Verdict.REGRESSION
        return Check(self.name, verdict, f"{self.value:.4f}{self.what}, the suite's floor is {self.least:g}")


def floors(result: TrialResult, gates: Gates) -> list[Floor]:
    """Accuracy as a share of the float model's (of an error, the float model's as a share of it), agreement, and the
    least mean cosine of any output or part, where ``gates`` has a floor for them.
    """
    found, fidelity = [], result.fidelity
    if gates.min_ratio is not None and result.accuracy is not None:
        found.append(Floor("accuracy.ratio", result.accuracy.goodness, gates.min_ratio, " of float's"))
    if gates.min_agreement is not None and fidelity is not None and fidelity.agreement is not None:
        found.append(Floor("agreement", fidelity.agreement, gates.min_agreement))
    if gates.min_cosine is not None and fidelity is not None:
        name, value = fidelity.lowest_cosine
        found.append(Floor("cosine", value, gates.min_cosine, f" of {name}"))
    return found


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
    difference = (accuracy.value - reference.value) * accuracy.direction
    text = f"{accuracy.value:.4f}, baseline {reference}"
    now, before = MetricEvidence.of(result, predictions), MetricEvidence.of_accepted(accepted, result)
    if now is not None and before is not None and now.pairs_with(before):
        ahead, behind = (now, before) if difference > 0 else (before, now)
        p = float(p_ahead(ahead, [behind])[0])
        beyond = abs(difference) > reference.allowed(gates) + 1e-9 and p < gates.significance
        text += f"; paired test p = {p:.3g}, significant below {gates.significance:g}"
    else:
        allowed = reference.allowed(gates) + gates.stderrs * accuracy.stderr
        beyond = abs(difference) > allowed
        is_older = before is not None and now is not None and len(now.per_sample) == len(before.per_sample)
        why = "scores of an older version, accept them again" if is_older else "different evaluation data"
        text += f"; {why}: {gates.stderrs:g} standard errors are {gates.stderrs * accuracy.stderr:.4f}"
    return Check(ACCURACY, _by_sign(difference) if beyond else Verdict.PASS, text)


def _by_sign(difference: float) -> Verdict:
    return Verdict.IMPROVEMENT if difference > 0 else Verdict.REGRESSION
