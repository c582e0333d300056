"""A sweep that is killed (SIGKILL, at any moment) and started again ends as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.execution.coordinator import Plan
from harness.tracking.mlflow_store import default_tracking_uri
from harness.trials.tasks import Bench
from tests.e2e.kill_resume import finish, kill_when, repeated, results, start, written

SUITE = """
name: killed
version: 1
models: mnist_lenet
march: bayes-e
calibration_samples: 50
evaluation_samples: 200
sweep:
  calibration_type: [max, kl]
  per_channel: [false, true]
  int16: [none, all]
"""
TRIALS = 8


def statuses(workdir: Path) -> list[str]:
    """Of the sweeps in MLflow, oldest first."""
    from mlflow import MlflowClient

    client = MlflowClient(default_tracking_uri(workdir))
    experiment = client.get_experiment_by_name("killed").experiment_id
    runs = client.search_runs([experiment], order_by=["attributes.start_time"])
    assert "RUNNING" not in {run.info.status for run in runs}
    return [run.info.status for run in runs if "lab.trial" not in run.data.tags]


@pytest.mark.nightly
def test_a_sweep_killed_three_times_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    suite = tmp_path / "killed.yaml"
    suite.write_text(SUITE)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    finish(start(str(suite), undisturbed))
    expected = results(undisturbed)
    assert len(expected) == TRIALS

    kept: dict[str, int] = {}
    kills = []
    for wanted in (1, 3, 5):
        kills.append(kill_when(start(str(suite), killed), killed, wanted))
        now = written(killed)
        assert {key: now[key] for key in kept} == kept, "a finished trial was computed again"
        kept = now
    assert len(kept) < TRIALS

    finish(start(str(suite), killed))
    now = written(killed)
    assert {key: now[key] for key in kept} == kept, "a finished trial was computed again"
    assert results(killed) == expected
    workers = Plan(Bench(killed)).workers
    assert repeated(killed, kills).cut_off <= len(kills) * workers, "more was computed again than was in flight"
    assert set(statuses(killed)[:-1]) <= {"KILLED"}  # one that was killed early had no run yet
    assert statuses(killed)[-1] == "FINISHED"
