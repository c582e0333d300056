"""Sweeps that have not come to their end are listed, with the command that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.execution.coordinator import Plan, serial
from harness.report.results import sweep_folder
from harness.sweeps.resuming import FILE, Running, begin, end, unfinished
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import Outcome
from tests.harness import fakes
from tests.harness.finished import suite

SUITE = suite()
SPECS = [fakes.spec(), fakes.spec(settings=fakes.KL), fakes.spec(settings=fakes.INT16)]


def plan(folder: Path, **options: object) -> Plan:
    return Plan(bench=Bench(folder), executor=serial, stages="tests.harness.fakes", **options)  # type: ignore[arg-type]


def test_an_interrupted_sweep_is_listed_until_it_ends(tmp_path: Path) -> None:
    assert unfinished(tmp_path) == []
    begin(Running(suite="mine", asked="my/mine.yaml", started_at="now", trials=tuple(SPECS)), tmp_path)
    store = Bench(tmp_path).store
    store.put(Outcome(fakes.result(SPECS[0])))
    store.put(Outcome(fakes.failed(SPECS[1])))
    (found,) = unfinished(tmp_path)
    assert (found.done, found.failed, found.total, found.asked) == (1, 1, 3, "my/mine.yaml")
    end("mine", tmp_path)
    assert unfinished(tmp_path) == []


def test_a_sweep_that_a_limit_stopped_is_listed(tmp_path: Path) -> None:
    run_suite(SUITE, plan(tmp_path, most_trials=1), specs=SPECS, record=False, asked="m.yaml")
    (found,) = unfinished(tmp_path)
    assert (found.done, found.total, found.asked) == (1, 3, "m.yaml")
    assert found.why.startswith("stopped by a limit")
    run_suite(SUITE, plan(tmp_path), specs=SPECS, record=False)
    assert unfinished(tmp_path) == []


def test_what_fails_on_the_way_stays_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.sweeps.sweep.write_sweep", full)
    with pytest.raises(OSError, match="No space left"):
        run_suite(SUITE, plan(tmp_path), specs=SPECS, record=False)
    assert (sweep_folder(tmp_path, "mine") / FILE).is_file()
    assert [each.done for each in unfinished(tmp_path)] == [3]
