"""What ``--dry-run`` and ``--resume`` print."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.forecast import show_forecast, show_unfinished
from harness.execution.coordinator import Plan, serial
from harness.suites.settings import Int16Kind, Int16Policy
from harness.sweeps.estimates import Estimates
from harness.sweeps.resuming import Running, begin
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
        "  a on bayes-e: 1 trials, about 8 min of work",
        "  b on bayes-e: 1 trials, time unknown, because the model cannot be run",
        "about 8 min on 2 workers, from earlier trials",
    ]


def test_a_new_model_is_measured_and_searches_for_nodes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimates, "probe", lambda self, spec: self.prepared(spec, {"float": 4.0}))
    top_k = fakes.Settings(int16=Int16Policy(kind=Int16Kind.TOP_K, count=2))
    show_forecast([fakes.spec("new", settings) for settings in (fakes.Settings(), top_k)], Plan(Bench(tmp_path)))
    assert capsys.readouterr().out.splitlines() == [
        "2 trials: 0 have a result, 2 would be computed",
        "  new on bayes-e: 2 trials, about 57 s of work, 40 s of it for top_k",
        "about 28 s on 2 workers, from the speed of the float model of new",
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
