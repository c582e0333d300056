"""Suites and nights of a working directory, as the first page shows them."""

from __future__ import annotations

import os
from pathlib import Path

from harness.files.cache import save_json
from harness.gates.judgement import References
from harness.gates.nights import Night, TrialNight, append_night
from harness.gates.verdicts import Verdict
from harness.report.results import SWEEP_FILE, TABLE_FILE, trials_csv
from harness.serving.overview import HEIGHT, WIDTH, overview, points
from harness.sweeps.resuming import Running, begin
from tests.harness import fakes, finished
from tests.harness.report.judged import judged


def night(day: int, *accuracies: float) -> Night:
    trials = {f"t{i}": TrialNight(figures={"accuracy.quantized": v}, predictions="") for i, v in enumerate(accuracies)}
    return Night(
        sweep=str(day), started_at=f"2026-01-0{day}T02:00", version=1, verdict=Verdict.PASS, engine="9", trials=trials
    )


def test_nothing_is_shown_of_a_folder_without_sweeps(tmp_path: Path) -> None:
    (tmp_path / "sweeps" / "empty").mkdir(parents=True)
    assert overview(tmp_path) == []
    assert overview(tmp_path / "absent") == []


def test_a_sweep_that_runs_for_the_first_time_and_its_nights(tmp_path: Path) -> None:
    begin(Running(suite="mine", asked="mine.yaml", started_at="2026-01-03T02:00", trials=()), tmp_path)
    for each in (night(1, 0.5, 0.7), night(2, 0.9), night(3)):
        append_night(each, tmp_path / "sweeps" / "mine")
    (row,) = overview(tmp_path)
    assert (row.name, row.summary, row.has_report, row.damaged) == ("mine", None, False, "")
    assert row.running is not None
    assert row.running.why == "interrupted, or still running"
    assert [(one.started_at[:10], one.accuracy, one.trials) for one in row.nights] == [
        ("2026-01-03", None, 0),
        ("2026-01-02", 0.9, 1),
        ("2026-01-01", 0.6, 2),
    ]
    assert row.line == f"2.0,{HEIGHT - 3:.1f} {WIDTH - 2:.1f},3.0"


def test_a_damaged_record_of_nights_is_said(tmp_path: Path) -> None:
    begin(Running(suite="mine", asked="mine", started_at="2026-01-03T02:00", trials=()), tmp_path)
    (tmp_path / "sweeps" / "mine" / "nights.jsonl").write_text("{\n")
    (row,) = overview(tmp_path)
    assert "nights.jsonl" in row.damaged
    assert row.nights == ()


def test_a_line_needs_two_nights_and_may_be_flat() -> None:
    assert points([0.5]) == ""
    assert points([0.5, 0.5]) == f"2.0,{HEIGHT - 3:.1f} {WIDTH - 2:.1f},{HEIGHT - 3:.1f}"


def test_accuracy_stands_beside_verdicts(tmp_path: Path) -> None:
    """Best and worst trial of a model on a march; read again once the table is written anew."""
    folder = tmp_path / "sweeps" / "mine"
    results = [
        fakes.result(fakes.spec("one"), value=0.90),
        fakes.result(fakes.spec("one", fakes.KL), value=0.92),
        fakes.failed(fakes.spec("one", fakes.INT16)),
        fakes.failed(fakes.spec("two")),
    ]
    made = judged(finished.sweep(results, suite=finished.suite(models="*")), References(), tmp_path)
    save_json(made.summary, folder / SWEEP_FILE)
    (folder / TABLE_FILE).write_text(trials_csv(made))
    (row,) = overview(tmp_path)
    (score,) = row.scores
    assert (score.model, score.march, score.verdict, score.trials) == ("one", "bayes-e", "ERROR", 2)
    assert (score.float_value, score.best, score.best_setting) == (0.95, 0.92, "kl")
    assert (score.worst, score.worst_setting) == (0.90, "max")
    (folder / TABLE_FILE).write_text("model\n")
    os.utime(folder / TABLE_FILE, ns=(1, 1))
    (row,) = overview(tmp_path)
    assert row.scores == ()
    (folder / TABLE_FILE).unlink()
    (row,) = overview(tmp_path)
    assert row.scores == ()
