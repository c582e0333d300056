"""What commands print."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.rulebook.known import Known
from harness.cli.output import open_console, print_json, show_drift, show_skipped, show_sweep, show_trial
from harness.gates import drift, nights
from harness.gates.differences import Cause, Kind
from harness.gates.explanation import Explanation
from harness.gates.judgement import References
from harness.gates.verdicts import Verdict
from harness.report.results import Sweep
from harness.tracking.tracker import Recorded
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes, finished

SUITE = finished.suite(models="*")


def swept(folder: Path, record_problem: str | None = None, **changes: Any) -> Sweep:
    """A sweep of a good trial and one that failed."""
    store = TrialStore(folder / "trials")
    results = (fakes.result(fakes.spec()), fakes.failed(fakes.spec(settings=fakes.KL)))
    store.put(Outcome(results[0], fakes.NODES, {"per_sample": fakes.hits(36)}))
    judgement = References().judge(SUITE, results, store, tuple(result.spec for result in results))
    fields = {"suite": SUITE, "seconds": 12.04, "reused": 1, "judgement": judgement, **changes}
    return finished.sweep(results, record_problem, **fields)


def test_without_a_terminal_a_console_has_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert open_console().width == 100
    monkeypatch.setenv("COLUMNS", "60")
    assert open_console().width == 60


def test_skipped_combinations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    show_skipped(SimpleNamespace(skipped={"why": 1, "why not": 2}))  # type: ignore[arg-type]
    assert capsys.readouterr().err == "skipped 1 combination: why\nskipped 2 combinations: why not\n"


def test_a_sweep_ends_with_its_verdict_and_where_its_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_sweep(swept(tmp_path), tmp_path)
    out = capsys.readouterr().out
    assert "ERROR: 2 trials, 1 failed, 1 reused, 12.0 s, no baseline" in out
    assert f"report  {(tmp_path / 'sweeps' / 'mine' / 'report.html').resolve().as_uri()}" in out
    assert "MLflow" not in out
    assert "net/bayes-e/kl: " in out  # what does not pass
    assert "net/bayes-e/max: " not in out


def test_warnings_stand_below_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = swept(tmp_path)
    show_sweep(sweep, tmp_path)
    assert "WARNING" not in capsys.readouterr().out
    good, bad = sweep.results
    doubtful = good.model_copy(update={"doubts": ("[few] samples",)})
    show_sweep(Sweep(sweep.summary, (doubtful, bad), None), tmp_path)
    assert "WARNING: net: calibration data: [few] samples\n" in capsys.readouterr().out


def test_how_far_conversions_are_known_stands_below_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = swept(tmp_path)
    good, bad = sweep.results
    for known, text, doubted in (
        (Known.of([("a", "")]), "all nodes by rules that recorded conversions show", False),
        (Known.of([("a", "x")]), "0 of 1 nodes by rules that recorded conversions show; 1 reason to doubt", True),
    ):
        show_sweep(Sweep(sweep.summary, (good.model_copy(update={"known": known}), bad), None), tmp_path)
        out = capsys.readouterr().out
        assert f"conversion of net known: {text}" in out
        assert ("ptqlab conformance hunt" in out) is doubted


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.REGRESSION])
def test_what_changed_since_the_baseline_is_said_unless_all_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    monkeypatch.setattr(Sweep, "verdict", verdict)
    cause = Cause(kind=Kind.TOOLS, text="torch absent → 2.13")
    show_sweep(swept(tmp_path, explanation=Explanation(shared=(cause,))), tmp_path)
    out = capsys.readouterr().out
    assert f"{verdict.value}: 2 trials" in out
    assert ("changed since the baseline: tools: torch absent → 2.13" in out) is (verdict is not Verdict.PASS)


def test_what_was_computed_anew_and_where_mlflow_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_sweep(swept(tmp_path, rechecked=1, record=Recorded(tracker="mlflow", uri="sqlite:///x.db")), tmp_path)
    out = capsys.readouterr().out
    assert "1 reused (1 recomputed), " in out
    assert "MLflow  mlflow ui --backend-store-uri sqlite:///x.db" in out


def test_a_record_that_is_not_complete_says_how_to_complete_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_sweep(swept(tmp_path, "away [/x]", record=Recorded(tracker="mlflow", uri="http://away")), tmp_path)
    out = capsys.readouterr().out
    assert "MLflow record incomplete: away [/x]. When the store works again, run: ptqlab sync" in out
    assert "mlflow ui" not in out


@pytest.mark.parametrize("loss", [True, False])
def test_only_losses_are_drift(
    loss: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = SimpleNamespace(is_loss=loss, trial="net", figure="accuracy", anchor=0.9, values=[0.8], p=None, began=None)
    night = SimpleNamespace(version=1, started_at="2026-01-02T03:04:05+00:00")
    monkeypatch.setattr(nights, "read_nights", lambda folder: [night] if folder == tmp_path / "sweeps" / "mine" else [])
    monkeypatch.setattr(drift, "drifts", lambda nights: [found] if nights else [])
    show_drift(swept(tmp_path), tmp_path)
    assert ("Worse than @anchor" in capsys.readouterr().out) is loss


def test_a_trial_is_shown_with_its_nodes_and_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = swept(tmp_path)
    show_trial(sweep.results[0], tmp_path)
    out = capsys.readouterr().out
    assert "HzSQuantizedConv" in out
    folder = TrialStore(tmp_path / "trials").folder(sweep.results[0].spec.key)
    assert f"files   {folder.resolve().as_uri()}" in out
    show_trial(sweep.results[1], tmp_path)
    assert "threshold" not in capsys.readouterr().out  # a failed trial has no nodes


def test_json_has_no_numbers_that_json_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1.5, float("nan")], "b": (float("inf"),)})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None], "b": [None]}
