"""Nights: the first, an equal one, one with a planted loss, and what is promoted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from harness.execution.coordinator import Plan, serial
from harness.gates.verdicts import Verdict
from harness.nightly import exit_code, last_good, promote_if_good
from harness.report.results import Sweep
from harness.strict_yaml import parse
from harness.suites.suite import Suite
from harness.sweep import resolve_baseline, run_suite
from harness.tracking.mlflow_store import LAST_GOOD
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 1, "models": "net", "sweep": {}}, Suite, "x.yaml")
SPEC = fakes.spec("net", evaluation_samples=500)


def night(workdir: Path, correct: int, model: str = "net", baseline: Path | None = None) -> Sweep:
    """A sweep whose only trial got ``correct`` of 500 samples right."""
    spec = SPEC.model_copy(update={"model": model})
    plan = Plan(bench=Bench(workdir), executor=serial, stages="tests.harness.fakes")
    if model == "net":
        result = fakes.result(spec, value=correct / 500)
        plan.bench.store.put(Outcome(result, (), {"per_sample": fakes.hits(correct, 500)}))
    found = baseline or last_good("mine.yaml", SUITE, workdir, None)
    return run_suite(SUITE, plan, baseline=found, specs=[spec])


def test_nights_pass_fail_and_promote(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="@last-good: no sweep of suite mine has this alias"):
        resolve_baseline(f"@{LAST_GOOD}", SUITE, tmp_path, None)
    first = night(tmp_path, 450)
    assert first.baseline is None
    assert promote_if_good(first)

    equal = night(tmp_path, 450)
    assert equal.baseline is not None
    assert (equal.verdict, exit_code(equal)) == (Verdict.PASS, 0)
    assert promote_if_good(equal)

    worse = night(tmp_path, 445)  # one point
    assert (worse.verdict, exit_code(worse)) == (Verdict.REGRESSION, 12)
    assert not promote_if_good(worse)
    assert night(tmp_path, 450).verdict is Verdict.PASS, "a bad night must not move the alias"

    accepted = night(tmp_path, 445)
    assert promote_if_good(accepted, accept=True)
    assert exit_code(accepted, accept=True) == 0
    assert night(tmp_path, 445).verdict is Verdict.PASS


def test_a_new_version_of_the_suite_begins_anew(tmp_path: Path) -> None:
    assert promote_if_good(night(tmp_path, 450))
    second = SUITE.model_copy(update={"version": 2})
    assert last_good("mine.yaml", second, tmp_path, None) is None
    plan = Plan(bench=Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    assert promote_if_good(run_suite(second, plan, baseline=None, specs=[SPEC]))
    assert last_good("mine.yaml", second, tmp_path, None) is not None
    assert last_good("mine.yaml", SUITE, tmp_path, None) is None


def test_a_failed_trial_is_never_promoted(tmp_path: Path) -> None:
    sweep = night(tmp_path, 0, model="refused")
    assert exit_code(sweep, accept=True) == 13
    assert not promote_if_good(sweep, accept=True)


def test_a_sweep_without_record_is_not_promoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OSError("no server")

    monkeypatch.setattr("harness.tracking.record.SweepRecord", away)
    sweep = night(tmp_path, 450)
    assert sweep.record_problem is not None
    assert exit_code(sweep) == 14
    assert not promote_if_good(sweep)
