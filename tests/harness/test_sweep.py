"""Pareto points, tables and the page of a sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import paths
from harness.execution.coordinator import DEFAULT_TIME_LIMIT, Plan
from harness.suites.suite import Budget
from harness.sweep import load_sweep, within, write_sweep
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes, finished


def test_the_command_s_time_limit_counts_more_than_the_suite_s(tmp_path: Path) -> None:
    plan, budget = Plan(bench=Bench(tmp_path)), Budget(trials=2, minutes=3, minutes_per_trial=20)
    assert (within(budget, plan).time_limit, within(budget, plan).seconds) == (1200, 180)
    assert within(budget, replace(plan, time_limit=5.0)).time_limit == 5
    assert within(Budget(), plan).task("key").time_limit == DEFAULT_TIME_LIMIT


def test_a_sweep_that_is_read_brings_the_cards_of_its_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ptqlab model`` and ``why`` know the cards of a network that was swept without any of the user's own."""
    monkeypatch.delenv("PTQLAB_SUITES", raising=False)
    monkeypatch.delenv("PTQLAB_DATASETS", raising=False)
    (tmp_path / "own/zoo").mkdir(parents=True)
    result = fakes.result(fakes.spec())
    TrialStore(tmp_path / "trials").put(Outcome(result, fakes.NODES, {"per_sample": fakes.hits(36)}))
    write_sweep(finished.sweep((result,), None, asked=str(tmp_path / "own/net.yaml")), tmp_path)
    assert paths.suites()[:-1] == ()
    load_sweep(tmp_path, finished.suite().name)
    assert paths.suites()[:-1] == (tmp_path / "own",)
