"""The child that measures: tasks as lines in, rows as lines out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.conformance import worker
from engine.conformance.cases import find_cases
from engine.conformance.conversion import Ending
from engine.conformance.measures import Row, unread
from engine.conformance.worker import CaseTask
from engine.errors import ConfigError
from engine.simulate.session import Mode
from tests.conftest import ROOT
from tests.golden_cases import BUNDLED

FOLDER = BUNDLED / "cases" / "min_clip_bayes-e_max_rgb"
(CASE,) = find_cases(FOLDER)


def test_a_case_that_cannot_be_measured_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(case: object, folder: Path, modes: object) -> Row:
        assert folder.is_dir()
        raise ConfigError("io.npz: damaged")

    monkeypatch.setattr(worker, "measure", refuse)
    row = worker._measured(CASE, (Mode.FAST,))
    assert row == unread(CASE, "io.npz: damaged")


def test_a_line_in_is_a_row_out_whatever_libraries_print(tmp_path: Path) -> None:
    code = """
import engine.conformance.worker as worker
def measure(case, folder, modes):
    print("a library speaks")
    return worker.unread(case, f"{case.name} {[mode.value for mode in modes]}")
worker.measure = measure
worker.main()
"""
    task = CaseTask(folder=str(FOLDER), modes=(Mode.REFERENCE,)).model_dump_json() + "\n"
    done = subprocess.run(
        [sys.executable, "-c", code], input=2 * task, capture_output=True, text=True, cwd=ROOT, check=True
    )
    rows = [Row.model_validate_json(line) for line in done.stdout.splitlines()]
    assert [row.message for row in rows] == [f"{FOLDER.name} ['reference']"] * 2
    assert all(row.outcome is Ending.UNREAD and row.seconds >= 0 for row in rows)
    assert "a library speaks" in done.stderr
