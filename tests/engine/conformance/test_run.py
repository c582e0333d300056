"""Cases measured in child processes: order, deaths, what is held out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.conformance import run
from engine.conformance.conversion import Ending
from engine.conformance.departure import ComparedStage
from engine.conformance.measures import Row
from engine.conformance.run import MeasurePlan, held_out, measure_all
from tests.engine.conformance.test_table import case

ANSWER = """
import json, sys, time
for line in sys.stdin:
    name = json.loads(line)["folder"].rsplit("/", 1)[1]
    if name.startswith("dies"):
        sys.exit(3)
    time.sleep(60 if name.startswith("hangs") else 0)
    row = dict(case=name, family=name, march="bayes-e", outcome="converted", converts=True)
    print(json.dumps(row), flush=True)
"""


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """Children that answer at once, by the name of the case; all that were started."""
    made: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        made.append(subprocess.Popen([sys.executable, "-c", ANSWER], stdin=pipe, stdout=pipe, text=True))
        return made[-1]

    monkeypatch.setattr(run, "_start", start)
    return made


def test_rows_are_in_the_order_of_cases_and_shown_as_they_come(started: list[subprocess.Popen[str]]) -> None:
    seen: list[str] = []
    rows = measure_all([case(name) for name in "cab"], MeasurePlan(2), lambda row: seen.append(row.case))
    assert [row.case for row in rows] == ["c", "a", "b"]
    assert sorted(seen) == ["a", "b", "c"]
    assert len(started) <= 2
    assert all(child.poll() is not None for child in started), "none is left behind"


def test_a_child_that_dies_costs_its_own_row_only(started: list[subprocess.Popen[str]]) -> None:
    rows = measure_all([case("a"), case("dies"), case("b")], MeasurePlan(1))
    assert [row.outcome for row in rows] == [Ending.CONVERTED, Ending.CRASHED, Ending.CONVERTED]
    assert rows[1].message == "the process that measured it ended with exit code 3"
    assert (rows[1].converts, rows[1].outputs, rows[1].operators) == (False, False, False)
    assert rows[1].departure is not None
    assert rows[1].departure.stage is ComparedStage.CONVERSION
    assert len(started) == 2


def test_a_case_that_takes_too_long_is_ended() -> None:
    rows = measure_all([case("hangs"), case("b")], MeasurePlan(1, time_limit=0.5))
    assert [row.message for row in rows] == ["took longer than 0.5 s", ""]


def test_no_cases_start_no_children(started: list[subprocess.Popen[str]]) -> None:
    assert (measure_all([], MeasurePlan(4)), started) == ((), [])


@pytest.mark.parametrize(("every", "expected"), [(None, set()), (1, {"a", "b", "c", "d"}), (2, {"b", "d"}), (5, set())])
def test_each_nth_family_by_name_is_held_out(every: int | None, expected: set[str]) -> None:
    cases = [case("d"), case("b"), case("aa", reduced=True), case("c"), case("a"), case("a")]
    assert held_out(cases, every) == expected


def test_libraries_of_a_child_keep_to_one_thread() -> None:
    assert set(run.THREAD_VARIABLES) == {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}


def test_a_lost_case_that_the_original_refuses_has_nothing_to_compare() -> None:
    lost: Row = run._lost(case("a").__class__(**{**case("a").__dict__, "refusal": "no", "folder": Path("a")}), "gone")
    assert (lost.outputs, lost.operators, lost.converts) == (None, None, False)
