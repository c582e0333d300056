"""Decisions from results, and a sweep that is judged against another baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.execution.coordinator import Plan, serial
from harness.gates.judgement import References
from harness.gates.verdicts import Verdict
from harness.report.results import sweep_folder
from harness.sweeps.judging import as_night, best_settings, decided, judged_anew
from harness.sweeps.sweep import run_suite
from harness.sweeps.written import load_sweep
from harness.tracking.tracker import BASELINE_FILE
from harness.trials.tasks import Bench
from tests.harness import fakes, finished

SPECS = [fakes.spec(), fakes.spec(settings=fakes.KL)]


def sweep(folder: Path) -> Any:
    plan = Plan(bench=Bench(folder), executor=serial, stages="tests.harness.fakes")
    return run_suite(finished.suite(), plan, specs=SPECS, record=False)


def test_a_sweep_is_judged_anew_as_it_would_have_been(tmp_path: Path) -> None:
    first = sweep(tmp_path)
    accepted = tmp_path / "accepted.json"
    (sweep_folder(tmp_path, "mine") / BASELINE_FILE).rename(accepted)
    again = judged_anew(first, References(baseline=accepted), tmp_path)
    assert {verdict.verdict for verdict in again.verdicts} == {Verdict.PASS}
    assert load_sweep(tmp_path, "mine").summary.judgement.baseline == accepted
    assert again.summary.choices == first.summary.choices


def test_a_decision_names_one_setting_for_every_model(tmp_path: Path) -> None:
    found = sweep(tmp_path)
    suite, store = finished.suite(), Bench(tmp_path).store
    decision = decided(suite, found.results, SPECS, References(), store, {})
    assert decision.choices == found.summary.choices
    assert len(best_settings(found)) == 1
    assert (
        decision.with_ships((), None, "the baseline", finished.suite(), found.results, Bench(tmp_path).store)
        is decision
    )


def test_a_night_keeps_the_figures_of_every_trial(tmp_path: Path) -> None:
    found = sweep(tmp_path)
    night = as_night(found, None, Bench(tmp_path).store)
    assert set(night.trials) == {spec.id for spec in SPECS}
    assert night.anchor == {}
