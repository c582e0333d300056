"""What compatibility with the original costs: pairs of trials that differ only in ``compatibility``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.terms import Compatibility
from harness.gates.drift import holm
from harness.gates.paired import MetricEvidence, interval_of_lead, p_apart
from harness.report.results import Sweep
from harness.trials.trial import TrialResult, TrialStore


@dataclass(frozen=True)
class SampleTest:
    """The scores of both trials on the same evaluation samples.

    Attributes:
        better, worse: samples that ``clean`` scores better and worse than ``original``.
        interval: 95 % confidence interval of the difference of the metric, clean minus original, in its unit.
        p: probability of so great a difference, in either direction, by chance; corrected for the number of pairs
            of the sweep (Holm).
    """

    better: int
    worse: int
    interval: tuple[float, float]
    p: float


@dataclass(frozen=True)
class CompatibilityPair:
    """Two trials with equal settings but for ``compatibility``.

    Attributes:
        original, clean: the trials; both have figures.
        test: of their scores per sample; None where the store has none.
    """

    original: TrialResult
    clean: TrialResult
    test: SampleTest | None = None

    @property
    def accuracy(self) -> float | None:
        """Accuracy with ``clean`` minus that with ``original``, in the metric's unit."""
        return self.change("accuracy.quantized")

    @property
    def gain(self) -> float | None:
        """:attr:`accuracy`, positive where ``clean`` is more accurate: for an error, its decrease."""
        is_error = self.clean.accuracy is not None and not self.clean.accuracy.higher_is_better
        return None if self.accuracy is None else (-1 if is_error else 1) * self.accuracy

    def change(self, figure: str) -> float | None:
        """A figure with ``clean`` minus that with ``original``; None where one of them has none."""
        before, now = (trial.metrics().get(figure) for trial in (self.original, self.clean))
        return None if before is None or now is None else now - before


def compatibility_pairs(sweep: Sweep, store: TrialStore) -> tuple[CompatibilityPair, ...]:
    """The pairs of ``sweep`` in its order; empty where it does not vary ``compatibility``.

    Args:
        sweep: a finished one.
        store: has the scores per sample.
    """
    clean = {_but_for_compatibility(trial): trial for trial in sweep.results if trial.ok and _is_clean(trial)}
    pairs = [
        CompatibilityPair(trial, other, _sample_test(trial, other, store))
        for trial in sweep.results
        if trial.ok and not _is_clean(trial) and (other := clean.get(_but_for_compatibility(trial))) is not None
    ]
    corrected = holm({pair.clean.spec.key: pair.test.p for pair in pairs if pair.test is not None})
    return tuple(
        pair if pair.test is None else replace(pair, test=replace(pair.test, p=corrected[pair.clean.spec.key]))
        for pair in pairs
    )


def compatibility_line(pairs: Sequence[CompatibilityPair], significance: float) -> str:
    """One line on ``pairs`` for the terminal; empty without pairs.

    Args:
        pairs: of a sweep.
        significance: error probability below which a difference counts; see :attr:`SampleTest.p`.
    """
    gains = [pair.gain for pair in pairs if pair.gain is not None]
    if not gains:
        return ""
    sure = [pair.gain for pair in pairs if pair.gain and pair.test is not None and pair.test.p < significance]
    better, worse = sum(gain > 0 for gain in sure), sum(gain < 0 for gain in sure)
    return (
        f"compatibility: clean against original in {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}: accuracy "
        f"{100 * float(np.mean(gains)):+.2f} points in the mean, {100 * min(gains):+.2f} to {100 * max(gains):+.2f}; "
        f"significantly better in {better}, worse in {worse}"
    )


def _is_clean(trial: TrialResult) -> bool:
    return trial.spec.settings.compatibility is Compatibility.CLEAN


def _but_for_compatibility(trial: TrialResult) -> str:
    """Key of ``trial`` as it would be with ``compatibility: original``; the stages that it runs may be others then."""
    settings = trial.spec.settings.model_copy(update={"compatibility": Compatibility.ORIGINAL})
    return trial.spec.model_copy(update={"settings": settings, "engine": ""}).key


def _sample_test(original: TrialResult, clean: TrialResult, store: TrialStore) -> SampleTest | None:
    before, now = (MetricEvidence.of(trial, store.predictions(trial.spec.key)) for trial in (original, clean))
    if before is None or now is None or not now.pairs_with(before):
        return None
    better, worse = now.changed_from(before)
    low, high = interval_of_lead(now, before)
    is_error = clean.accuracy is not None and not clean.accuracy.higher_is_better
    return SampleTest(
        better=better,
        worse=worse,
        interval=(-high, -low) if is_error else (low, high),
        p=float(p_apart(now, [before])[0]),
    )
