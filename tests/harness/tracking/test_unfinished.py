"""A sweep whose process is killed does not stay RUNNING in MLflow for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.errors import OutputError
from harness.cli.main import app
from harness.execution.coordinator import Plan, serial
from harness.sweeps.sweep import run_suite
from harness.tracking.mlflow_store import default_tracking_uri
from harness.tracking.record import Recorder
from harness.tracking.tracker import Closing, RunStatus
from harness.tracking.unfinished import FOLDER, OpenRecord, close_unfinished, mark_open
from tests.harness import fakes
from tests.harness.tracking.test_record import SUITE

ROOT = Path(__file__).parents[3]
KILLED = """
import os, signal, sys
from pathlib import Path
from harness.tracking.record import Recorder
from harness.trials.trial import TrialStore
from tests.harness import fakes
from tests.harness.tracking.test_record import SUITE
workdir = Path(sys.argv[1])
recorder = Recorder(SUITE, "killed", workdir, TrialStore(workdir / "trials"))
recorder.planned([fakes.spec(), fakes.spec(settings=fakes.KL)])
recorder.finished(fakes.result(fakes.spec()), reused=False)
recorder._later(lambda: recorder._tracker._start({"lab.sweep": "killed", "lab.trial": "half"}, 1.0))
recorder._later(os.kill, os.getpid(), signal.SIGKILL)
"""


def killed_sweep(workdir: Path) -> None:
    """One trial is complete, the run of another is there and no more."""
    finished = subprocess.run([sys.executable, "-c", KILLED, str(workdir)], cwd=ROOT, timeout=120, check=False)
    assert finished.returncode == -9


def statuses(workdir: Path) -> dict[str, str]:
    from mlflow import MlflowClient

    client = MlflowClient(default_tracking_uri(workdir))
    runs: list[Any] = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    return {f"{run.data.tags['lab.sweep']}/{run.data.tags.get('lab.trial', '')}": run.info.status for run in runs}


@pytest.mark.nightly
def test_the_next_sweep_closes_one_that_was_killed(tmp_path: Path) -> None:
    killed_sweep(tmp_path)
    before = {"killed/": "RUNNING", "killed/half": "RUNNING", "killed/net/bayes-e/max": "FINISHED"}
    assert statuses(tmp_path) == before
    recorder = Recorder(SUITE, "next", tmp_path, fakes.Bench(tmp_path).store)
    recorder.planned([])
    assert recorder.close(Closing(status=RunStatus.FINISHED)) is None
    after = {"killed/": "KILLED", "killed/half": "KILLED", "killed/net/bayes-e/max": "FINISHED"}
    assert statuses(tmp_path) == {**after, "next/": "FINISHED"}
    assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.nightly
def test_sync_closes_a_sweep_that_was_killed(tmp_path: Path) -> None:
    killed_sweep(tmp_path)
    run = CliRunner().invoke(app, ["sync", "--workdir", str(tmp_path)])
    assert "mine, sweep killed: was killed; its run is now closed in MLflow" in run.output
    assert set(statuses(tmp_path).values()) == {"KILLED", "FINISHED"}
    assert "nothing to sync" in CliRunner().invoke(app, ["sync", "--workdir", str(tmp_path)]).output


def test_a_sweep_that_lives_is_left_alone(tmp_path: Path) -> None:
    mark = mark_open(OpenRecord(sweep="alive", suite="mine", tracking_uri="http://127.0.0.1:9"), tmp_path)
    assert close_unfinished(tmp_path) == []
    assert mark.path.exists()
    mark.release(complete=True)
    assert not mark.path.exists()


@pytest.mark.nightly
def test_a_record_that_another_store_took_leaves_nothing_to_close(tmp_path: Path) -> None:
    away = "http://127.0.0.1:9"
    plan = Plan(bench=fakes.Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    sweep = run_suite(SUITE, plan, specs=[fakes.spec()], tracking_uri=away)
    assert sweep.record_problem is not None
    here = ["sync", "--workdir", str(tmp_path), "--tracking-uri", default_tracking_uri(tmp_path)]
    first = CliRunner().invoke(app, here)
    assert (first.exit_code, first.output.count("1 trials written")) == (0, 1)
    assert statuses(tmp_path) == dict.fromkeys(
        (f"{sweep.summary.id}/", f"{sweep.summary.id}/{fakes.spec().id}"), "FINISHED"
    )
    assert "nothing to sync" in CliRunner().invoke(app, ["sync", "--workdir", str(tmp_path)]).output


def test_a_disk_that_fills_up_behind_the_trials_leaves_no_run_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OutputError("report.html: cannot be written: No space left on device")

    monkeypatch.setattr("harness.sweeps.sweep.write_sweep", full)
    plan = Plan(bench=fakes.Bench(tmp_path), executor=serial, stages="tests.harness.fakes")
    with pytest.raises(OutputError, match="No space left"):
        run_suite(SUITE, plan, specs=[fakes.spec()])
    assert "RUNNING" not in statuses(tmp_path).values()
    assert "KILLED" in statuses(tmp_path).values()
