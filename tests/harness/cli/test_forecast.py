"""What ``--dry-run`` and ``--resume`` print."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.forecast import show_forecast, show_unfinished
from harness.execution.coordinator import Plan, serial
from harness.resuming import Running, begin
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes

SPECS = [fakes.spec(model, settings) for model in ("a", "b") for settings in (fakes.Settings(), fakes.KL)]


def test_a_dry_run_says_what_there_is_and_how_long_the_rest_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(bench=Bench(tmp_path), executor=serial, workers=2, most_trials=2)
    slow = fakes.result(SPECS[0]).model_copy(update={"seconds": {"simulate": 300.0}})
    plan.bench.store.put(Outcome(slow))
    show_forecast(SPECS, plan)
    assert capsys.readouterr().out.splitlines() == [
        "4 trials: 1 have a result, 2 would be computed",
        "1 would remain for the next run",
        "  a on bayes-e: 1 trials, about 5 min of work",
        "  b on bayes-e: 1 trials, time unknown, because there are no earlier trials",
        "about 5 min on 2 workers, from earlier trials",
    ]


def test_unfinished_sweeps_are_listed_with_their_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_unfinished(tmp_path)
    assert "is complete" in capsys.readouterr().out
    begin(Running(suite="mine", asked="my suite.yaml", started_at="now", trials=tuple(SPECS)), tmp_path)
    show_unfinished(tmp_path)
    text = (
        "mine: 0 of 4 trials, started now, interrupted, or still running; continue with: ptqlab run 'my suite.yaml'\n"
    )
    assert capsys.readouterr().out == text
