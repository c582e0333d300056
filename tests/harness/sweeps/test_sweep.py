"""A sweep from suite to report: what is left in the working directory, and what of one that is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.execution.coordinator import Plan, serial
from harness.gates.verdicts import Verdict
from harness.report.results import REPORT_FILE, SWEEP_FILE, TABLE_FILE, sweep_folder
from harness.sweeps.sweep import run_suite
from harness.sweeps.written import load_sweep
from harness.tracking.tracker import BASELINE_FILE
from harness.trials.tasks import Bench
from tests.harness import fakes, finished

SPECS = [fakes.spec(), fakes.spec(settings=fakes.KL)]


def sweep(folder: Path, **options: Any) -> Any:
    plan = Plan(bench=Bench(folder), executor=serial, stages="tests.harness.fakes")
    return run_suite(finished.suite(), plan, specs=SPECS, record=False, **options)


def test_a_sweep_leaves_its_files_and_says_what_it_reused(tmp_path: Path) -> None:
    first = sweep(tmp_path, asked="mine.yaml")
    folder = sweep_folder(tmp_path, "mine")
    assert {REPORT_FILE, TABLE_FILE, SWEEP_FILE, BASELINE_FILE} <= {path.name for path in folder.iterdir()}
    assert (first.summary.reused, first.summary.left, first.summary.asked) == (0, 0, "mine.yaml")
    assert sweep(tmp_path).summary.reused == 2
    assert [result.spec.key for result in load_sweep(tmp_path, "mine").results] == [spec.key for spec in SPECS]


def test_a_night_is_kept_and_without_references_there_is_no_gate(tmp_path: Path) -> None:
    assert sweep(tmp_path, night=True).verdict is Verdict.NO_GATE
    assert (sweep_folder(tmp_path, "mine") / "nights.jsonl").is_file()


def test_a_killed_sweep_leaves_no_report(tmp_path: Path) -> None:
    class Killed:
        def planned(self, specs: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, observers=[Killed()])
    assert not (sweep_folder(tmp_path, "mine") / REPORT_FILE).exists()
