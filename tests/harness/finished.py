"""Suites and finished sweeps made by hand, and scores of trials on 500 samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.files.strict_yaml import parse
from harness.gates.judgement import Judgement
from harness.report.results import Sweep, SweepSummary
from harness.suites.suite import Suite
from harness.trials.trial import TrialResult
from tests.harness import fakes

SAMPLES = 500
RIGHT = 450
"""Samples, and those of them that a trial gets right unless said otherwise."""


def suite(**changes: Any) -> Suite:
    """A suite of one model, which varies nothing."""
    return parse({"name": "mine", "version": 1, "models": "net", "sweep": {}, **changes}, Suite, "mine.yaml")


def sweep(results: Sequence[TrialResult], record_problem: str | None = None, **changes: Any) -> Sweep:
    """A sweep that has given ``results``, without a judgement; ``changes`` are fields of its summary."""
    fields: dict[str, Any] = {
        "suite": suite(),
        "trials": tuple(result.spec for result in results),
        "started_at": "2026-01-02T03:04:05+00:00",
        "seconds": 1.0,
        "reused": 0,
        "engine": "0.1.0+abc",
        "judgement": Judgement(),
        **changes,
    }
    return Sweep(SweepSummary(**fields), tuple(results), record_problem)


def trial(correct: int = RIGHT, **changes: Any) -> TrialResult:
    """A trial that got ``correct`` of the samples right."""
    return fakes.result(fakes.spec(evaluation_samples=SAMPLES), value=correct / SAMPLES, **changes)


def predictions(correct: int = RIGHT) -> dict[str, Any]:
    """What is kept of it."""
    return {"per_sample": fakes.hits(correct, SAMPLES)}
