"""The record on a real tracking server: complete, readable, and completed later where the server was away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.execution.coordinator import Plan, processes
from harness.files.strict_yaml import parse
from harness.report.results import Sweep
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.tracking.mlflow_store import PARENT
from harness.tracking.sync import pending, replay
from harness.trials.tasks import Bench
from tests.e2e.postgres import free_port, postgres
from tests.harness import fakes

SUITE = parse(
    {"name": "served", "version": 1, "models": "net", "sweep": {"calibration_type": ["max", "kl"]}}, Suite, "x"
)
SPECS = [fakes.spec("mnist_lenet"), fakes.spec("mnist_lenet", fakes.KL), fakes.spec("refused")]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


@contextmanager
def server(folder: Path, port: int, database: str | None = None) -> Iterator[str]:
    """``mlflow server`` on loopback; its store is ``database``, or a SQLite file in ``folder``."""
    folder.mkdir(exist_ok=True)
    database = database or f"sqlite:///{folder / 'mlflow.db'}"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", database, "--artifacts-destination", str(folder / "files")),
    ]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < end, f"{url} does not answer"
            time.sleep(0.2)


def sweep(workdir: Path, uri: str) -> Sweep:
    plan = Plan(bench=Bench(workdir), executor=processes, stages="tests.harness.fakes")
    return run_suite(SUITE, plan, specs=SPECS, tracking_uri=uri)


def snapshot(uri: str) -> dict[str, Any]:
    """All that the record of the only sweep holds, without ids that the server draws."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("served")
    found = {}
    for run in client.search_runs([experiment.experiment_id]):
        tags = {name: value for name, value in run.data.tags.items() if name.startswith("lab.") and name != PARENT}
        name = tags.get("lab.trial", "sweep")
        assert name not in found, "a run is there twice"
        found[name] = {
            "status": run.info.status,
            "metrics": run.data.metrics,
            "histories": {key: len(client.get_metric_history(run.info.run_id, key)) for key in run.data.metrics},
            "params": run.data.params,
            "tags": tags,
            "files": sorted(item.path for item in client.list_artifacts(run.info.run_id)),
            "datasets": sorted((data.dataset.name, data.tags[0].value) for data in run.inputs.dataset_inputs),
            "models": len(client.get_run(run.info.run_id).inputs.model_inputs),
        }
    return found


@pytest.mark.nightly
def test_a_server_that_is_away_loses_nothing_and_what_was_cut_off_is_completed(tmp_path: Path) -> None:
    """One server for both: its start costs as much as all that is asked of it."""
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    away = sweep(tmp_path / "work", uri)
    assert away.record_problem is not None
    assert [result.ok for result in away.results] == [True, True, False]
    (folder,) = pending(tmp_path / "work")

    with server(tmp_path / "server", port):
        replay(folder, tmp_path / "work")
        assert pending(tmp_path / "work") == []
        complete = snapshot(uri)
        check_record(complete)
        check_a_record_cut_off_half_way(away, uri, tmp_path)
        assert snapshot(uri) == complete


def check_record(record: dict[str, Any]) -> None:
    """Everything about the sweep is there, once."""
    assert set(record) == {"sweep", *(spec.id for spec in SPECS)}
    good = record[SPECS[0].id]
    assert good["status"] == "FINISHED"
    assert good["metrics"]["accuracy"] == 0.9
    assert good["files"] == ["nodes.csv", "result.json"]
    assert good["datasets"] == [("mnist/calibration", "calibration"), ("mnist/evaluation", "evaluation")]
    assert good["models"] == 1
    assert set(good["histories"].values()) == {1}
    assert record[SPECS[2].id]["tags"]["lab.failed_stage"] == "quantize"
    assert {"report.html", "suite.yaml", "trials.csv"} <= set(record["sweep"]["files"])
    assert record["sweep"]["tags"]["lab.verdict"] == "ERROR"
    assert record["sweep"]["status"] == "FAILED"


@pytest.mark.nightly
def test_a_sweep_and_its_sync_on_postgresql(tmp_path: Path) -> None:
    port = free_port()
    with postgres() as database:
        with server(tmp_path / "server", port, database.uri) as uri:
            first = sweep(tmp_path / "work", uri)
            assert first.record_problem is None
            assert first.summary.record is not None
            directly = snapshot(uri)
            check_record(directly)
        again = sweep(tmp_path / "work", uri)  # the server is away now
        assert again.record_problem is not None
        (folder,) = pending(tmp_path / "work")
        with server(tmp_path / "server", port, database.uri) as uri:
            from mlflow import MlflowClient

            replay(folder, tmp_path / "work")
            client = MlflowClient(uri)
            runs = client.search_runs([client.get_experiment_by_name("served").experiment_id])
            assert len(runs) == 1 + len(SPECS) + 1, "a sweep that reused everything has no trials of its own"
            (synced,) = (run for run in runs if run.data.tags["lab.sweep"] == again.summary.id)
            assert synced.data.tags["lab.same_trials_as"] == first.summary.record.run
            assert synced.data.tags["lab.reused"] == str(len(SPECS))
            assert all(run.data.tags["lab.complete"] == "true" for run in runs)


def check_a_record_cut_off_half_way(first: Sweep, uri: str, folder: Path) -> None:
    """The same sweep once more, whose connection broke after its first trial, is completed and not doubled."""
    from harness.tracking import mlflow_store
    from harness.tracking.mlflow_store import MlflowTracker
    from harness.tracking.sync import PendingRecord, keep
    from harness.tracking.tracker import Closing, RunStatus, SweepStart

    store = Bench(folder / "work").store
    record = PendingRecord(
        sweep="broken",
        suite=SUITE.model_copy(update={"name": "broken"}),
        trials=tuple(SPECS),
        reused=frozenset(),
        shared=(),
        started_at=first.summary.started_at,
        tracking_uri=uri,
        closing=Closing(status=RunStatus.FINISHED),
    )
    begun = MlflowTracker(uri, folder / "work")
    begun.begin(SweepStart(record.suite, "broken", store, time.time(), SPECS))
    begun.trial(first.results[0], reused=False)
    for _ in range(2):
        replay(keep(record, [], folder / "work"), folder / "work")
    client = mlflow_store.connect(uri)
    experiment = client.get_experiment_by_name("broken")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 1 + len(SPECS)
    assert {run.info.status for run in runs} == {"FINISHED", "FAILED"}
