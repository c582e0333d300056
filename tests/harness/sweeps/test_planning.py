"""The trials of a suite, within its limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.execution.coordinator import DEFAULT_TIME_LIMIT, Plan
from harness.suites.suite import Budget, open_suite
from harness.sweeps.planning import expansion_of, tags_of, within
from harness.trials.tasks import Bench
from harness.zoo.cards import load_card


def test_the_command_s_time_limit_counts_more_than_the_suite_s(tmp_path: Path) -> None:
    plan, budget = Plan(bench=Bench(tmp_path)), Budget(trials=2, minutes=3, minutes_per_trial=20)
    assert (within(budget, plan).time_limit, within(budget, plan).seconds) == (1200, 180)
    assert within(budget, replace(plan, time_limit=5.0)).time_limit == 5
    assert within(Budget(), plan).task("key").time_limit == DEFAULT_TIME_LIMIT


def test_a_suite_expands_to_points_of_the_models_that_there_are() -> None:
    assert {point.model for point in expansion_of(open_suite("smoke")).points} >= {"mnist_lenet"}
    assert tags_of(load_card("mnist_lenet"))[:2] == ("classification", "bundled")
