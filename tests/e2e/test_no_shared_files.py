"""Workers that see no file of the coordinator's: a Dask cluster whose workers share an S3 store alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.execution.coordinator import Plan, executor_factory, run_sweep, serial
from harness.execution.planning import resolve
from harness.files.strict_yaml import parse
from harness.suites.suite import Suite
from harness.sweeps.planning import expansion_of
from harness.trials.tasks import Bench
from harness.trials.trial import NODES_FILE, PREDICTIONS_FILE, TrialResult, TrialSpec
from tests.harness.s3 import s3_server

WORKERS = ("first", "second")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server() as (url, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield f"{url}/sweep"


@pytest.fixture
def cluster(store: str, tmp_path: Path) -> Iterator[str]:
    """Two worker processes, each with a folder of its own; name of the executor."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    workers = {
        name: {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": {"PTQLAB_SCRATCH": str(tmp_path / name)}}}
        for name in WORKERS
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "host": "127.0.0.1", "port": 0}}
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as made:
        yield f"dask://{made.scheduler_address.removeprefix('tcp://')}"


def specs() -> list[TrialSpec]:
    content = {
        "name": "apart",
        "version": 1,
        "models": ["mnist_lenet"],
        "calibration_samples": 4,
        "evaluation_samples": 20,
        "sweep": {"calibration_type": ["max", "kl"], "per_channel": [False, True]},
    }
    suite = parse(content, Suite, "apart")
    return resolve(suite, expansion_of(suite).points)


def figures(results: list[TrialResult]) -> list[tuple[object, ...]]:
    measured = {"peak_memory.mb"}
    kept = [{name: value for name, value in each.metrics().items() if name not in measured} for each in results]
    return [(each.failure, each.artefacts, found) for each, found in zip(results, kept, strict=True)]


@pytest.mark.nightly
def test_figures_are_those_of_one_machine(store: str, cluster: str, tmp_path: Path) -> None:
    trials = specs()
    here = run_sweep(trials, Plan(bench=Bench(tmp_path / "here"), executor=serial))
    bench = Bench(tmp_path / "apart", store_url=store)
    apart = run_sweep(trials, Plan(bench=bench, executor=executor_factory(cluster)))
    assert [result.failure for result in here] == [None] * len(trials)
    assert figures(apart) == figures(here)
    assert not (tmp_path / "apart" / "cache").exists()
    assert all(list((tmp_path / name).rglob("result.json")) for name in WORKERS)
    for spec in trials:
        names = [
            sorted(path.name for path in (tmp_path / where / "trials" / spec.key).iterdir())
            for where in ("here", "apart")
        ]
        assert names[0] == names[1]
        assert {NODES_FILE, PREDICTIONS_FILE} <= set(names[0])

    elsewhere = Bench(tmp_path / "elsewhere", store_url=store)
    reused = run_sweep(trials, Plan(bench=elsewhere, executor=serial, most_trials=0))
    assert reused == apart
