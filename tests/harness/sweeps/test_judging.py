"""Decisions from results, and a sweep that is judged against another baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.execution.coordinator import Plan, serial
from harness.gates.baseline import load_baseline
from harness.gates.judgement import References
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.report.results import sweep_folder
from harness.sweeps.bisecting import bisected
from harness.sweeps.judging import as_night, best_settings, decided, explained, judged_anew
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


def test_a_file_that_was_built_otherwise_is_not_explained_nor_bisected(tmp_path: Path) -> None:
    found = sweep(tmp_path)
    accepted = load_baseline(sweep_folder(tmp_path, "mine") / BASELINE_FILE, finished.suite())
    verdicts = tuple(TrialVerdict(spec.id, (Check("shipped", Verdict.REGRESSION, "differs"),)) for spec in SPECS)
    judgement = found.summary.judgement.model_copy(update={"verdicts": verdicts})
    found = replace(found, summary=found.summary.model_copy(update={"judgement": judgement}))
    assert found.verdict_of(SPECS[0].id) is Verdict.REGRESSION
    told = explained(found, accepted, Bench(tmp_path).store)
    assert told.summary.explanation is not None
    assert told.summary.explanation.trials == ()
    assert bisected(told, tmp_path, 60.0) == told.summary.explanation


def test_a_night_keeps_the_figures_of_every_trial(tmp_path: Path) -> None:
    found = sweep(tmp_path)
    night = as_night(found, None, Bench(tmp_path).store)
    assert set(night.trials) == {spec.id for spec in SPECS}
    assert night.anchor == {}
