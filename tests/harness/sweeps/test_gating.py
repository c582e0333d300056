"""The gate of one suite in one session: which trials, which baseline, which verdicts."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.errors import CalibrationDataError, ConfigError
from harness.cli.main import app
from harness.execution.coordinator import Plan
from harness.files import paths
from harness.gates.baseline import Baseline, BaselineTrial, load_baseline, save_baseline
from harness.gates.verdicts import Verdict
from harness.sweeps import gating
from harness.sweeps.gating import GateOptions, SuiteGate
from harness.trials.trial import Outcome
from tests.harness import fakes

SPECS = [fakes.spec(), fakes.spec(settings=fakes.KL)]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes gates of a suite of two trials whose stages are fakes."""
    suite = tmp_path / "mine.yaml"
    suite.write_text("{name: mine, version: 1, models: net, sweep: {}}")
    monkeypatch.setattr(gating, "plan_trials", lambda suite: list(SPECS))
    monkeypatch.setattr(gating, "Plan", partial(Plan, stages="tests.harness.fakes"))
    return lambda **options: SuiteGate(
        GateOptions(**{"suite": str(suite), "workdir": str(tmp_path / "work"), "executor": "serial", **options})
    )


ALL = [spec.key for spec in SPECS]


def test_a_baseline_is_written_of_all_trials(gate: Any, tmp_path: Path) -> None:
    first = gate(update=True)
    with pytest.raises(ConfigError, match="--ptqlab-update-baseline needs all trials of the suite; select none"):
        first.run(ALL[:1])
    text = first.run(ALL)
    path = tmp_path / "baselines" / "mine.json"
    assert first.baseline_path == path.resolve()
    assert text.startswith("suite mine: PASS, 2 trials, 0 failed, ")
    assert text.endswith(f"\nbaseline written: {path.resolve()}\n  2 trials, for the first time")
    assert set(load_baseline(path, first.suite).trials) == {spec.id for spec in SPECS}
    assert [first.verdict(spec).verdict for spec in SPECS] == [Verdict.PASS] * 2
    assert first.leftovers == []


def test_a_loss_is_accepted_by_name_alone(gate: Any, tmp_path: Path) -> None:
    gate(update=True).run(ALL)
    path = tmp_path / "baselines" / "mine.json"
    better = json.loads(path.read_text())
    better["trials"][SPECS[0].id]["figures"]["cosine.output"]["value"] = 0.999
    path.write_text(json.dumps(better))
    with pytest.raises(ConfigError, match=r"(?s)not written.*cosine.output: 0.99, baseline.*add --ptqlab-accept-loss"):
        gate(update=True).run(ALL)
    assert json.loads(path.read_text()) == better
    text = gate(update=True, accept_loss=True).run(ALL)
    assert f"\n  {SPECS[0].id}: cosine.output 0.999 → 0.99" in text
    assert text.startswith("suite mine: PASS")
    assert gate(update=True).run(ALL).endswith("\n  nothing differs from the baseline before")


def test_what_is_refused_is_kept_for_why(gate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate(update=True).run(ALL)

    def changed(suite: Any) -> None:
        raise CalibrationDataError("dataset x: the data have digest 2, its card was written for 1")

    monkeypatch.setattr(gating, "plan_trials", changed)
    with pytest.raises(CalibrationDataError):
        gate()
    said = CliRunner().invoke(app, ["why", "mine", "--workdir", str(tmp_path / "work")]).stdout.splitlines()
    assert said[0].startswith("REFUSED: mine, 20")
    assert said[1:3] == ["  dataset x: the data have digest 2, its card was written for 1", "the sweep before that:"]
    assert said[3].startswith("PASS: mine, sweep ")


def test_without_a_baseline_there_is_nothing_to_judge_by(gate: Any) -> None:
    with pytest.raises(ConfigError, match="no baseline"):
        gate()


def test_selected_trials_are_judged_by_themselves(gate: Any) -> None:
    gate(update=True).run(ALL)
    second = gate()
    lines = second.run(ALL[:1]).splitlines()
    assert lines[0] == "suite mine: 1 of 2 trials selected"
    assert lines[1].startswith("net/bayes-e/")
    assert "file://" in lines[1]
    assert second.verdict(SPECS[0]).verdict is Verdict.PASS


def test_a_trial_that_did_not_run_is_an_error(gate: Any) -> None:
    first = gate(update=True)
    (check,) = first.verdict(SPECS[0]).checks
    assert (check.verdict, check.message) == (Verdict.ERROR, "it was selected but did not run")


def test_entries_that_no_trial_belongs_to(gate: Any, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    trials = {SPECS[0].id: BaselineTrial(), "gone": BaselineTrial()}
    save_baseline(Baseline(suite="mine", version=1, trials=trials), path)
    found = gate(baseline=str(path))
    assert found.leftovers == ["gone"]
    assert found.leftover("gone").verdict is Verdict.MISSING
    assert gate(baseline=str(path), update=True).leftovers == []


def test_a_judgement_of_another_baseline_does_not_count(gate: Any, tmp_path: Path) -> None:
    """What the last sweep said was said of another file: the trial is judged anew, here by figures it fell behind."""
    first = gate(update=True)
    first.run(ALL)
    first._plan.bench.store.put(Outcome(fakes.result(SPECS[0], value=0.5), (), {"per_sample": fakes.hits(20)}))
    assert gate().verdict(SPECS[0]).verdict is Verdict.PASS  # as the sweep's judgement has it
    path = first.baseline_path
    path.write_text(path.read_text() + "\n")
    assert gate().verdict(SPECS[0]).verdict is Verdict.REGRESSION


def test_aliases_and_installations_are_not_written_to(gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gating, "resolve_baseline", lambda *_: Path("/x/baseline.json"))
    with pytest.raises(ConfigError, match="writes files; to move an alias, use ptqlab nightly --accept"):
        gate(baseline="@last-good", update=True)
    monkeypatch.setattr(paths, "is_installed", lambda path: path == Path("/x/baseline.json"))
    with pytest.raises(ConfigError, match=r"would write into the installation \(/x/baseline\.json\)"):
        gate(baseline="b.json", update=True)
