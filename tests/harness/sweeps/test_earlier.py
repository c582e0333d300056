"""The report of an earlier sweep stays where a later one says something else."""

from __future__ import annotations

from pathlib import Path

from harness.files.cache import load_json, save_json
from harness.gates.judgement import Judgement
from harness.gates.verdicts import Check, TrialVerdict, Verdict
from harness.report.results import REPORT_FILE, SWEEP_FILE, SweepSummary, sweep_folder
from harness.sweeps.earlier import keep_earlier
from tests.harness import fakes
from tests.harness.finished import sweep

FIRST = sweep([fakes.result(fakes.spec())]).summary
OTHER = sweep([fakes.result(fakes.spec(engine="1"))]).summary


def reported(workdir: Path, summary: SweepSummary) -> Path:
    folder = sweep_folder(workdir, "mine")
    save_json(summary, folder / SWEEP_FILE)
    (folder / REPORT_FILE).write_text("first")
    (folder / "nights.jsonl").write_text("")
    (folder / "bisection").mkdir(exist_ok=True)
    (folder / "bisection" / "report.txt").write_text("node")
    return folder


def test_other_trials_leave_the_earlier_report(tmp_path: Path) -> None:
    reported(tmp_path, FIRST)
    kept = keep_earlier(OTHER, tmp_path)
    assert kept == tmp_path / "earlier/mine-20260102-030405/report.html"
    assert kept is not None
    assert kept.read_text() == "first"
    assert load_json(SweepSummary, kept.with_name(SWEEP_FILE)) == FIRST
    assert {path.name for path in kept.parent.iterdir()} == {SWEEP_FILE, REPORT_FILE, "bisection"}
    assert keep_earlier(OTHER, tmp_path) == kept, "a copy that is there is not made again"


def test_the_same_trials_leave_none_unless_their_verdict_differs(tmp_path: Path) -> None:
    assert keep_earlier(FIRST, tmp_path) is None, "there is none"
    reported(tmp_path, FIRST)
    assert keep_earlier(FIRST, tmp_path) is None
    bad = Judgement(verdicts=(TrialVerdict("net", (Check("cosine", Verdict.REGRESSION, "worse"),)),))
    judged = FIRST.model_copy(update={"judgement": bad})
    assert keep_earlier(judged, tmp_path) is not None
    reported(tmp_path, FIRST.model_copy(update={"left": 1, "started_at": "2026-01-03T00:00:00+00:00"}))
    assert keep_earlier(judged, tmp_path) is None, "it was not finished"


def test_links_to_trials_hold_in_the_copy(tmp_path: Path) -> None:
    folder = reported(tmp_path, FIRST)
    trial = tmp_path / "trials/key/trial.html"
    trial.parent.mkdir(parents=True)
    trial.touch()
    kept = keep_earlier(OTHER, tmp_path)
    assert kept is not None
    for place in (folder, kept.parent):
        assert (place / "../../trials/key/trial.html").resolve() == trial.resolve()
