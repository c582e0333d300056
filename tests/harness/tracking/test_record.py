"""The MLflow record, against a real SQLite store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.files.strict_yaml import parse
from harness.suites.suite import Suite
from harness.tracking.mlflow_store import default_tracking_uri
from harness.tracking.record import Recorder
from harness.tracking.tracker import Closing, RunStatus
from harness.tracking.views import view_key
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import Outcome, TrialStore
from tests.harness import fakes

SWEEP = {"calibration_type": ["max", "kl"]}
SUITE = parse(
    {"name": "mine", "version": 2, "description": "A suite.", "models": "net", "sweep": SWEEP}, Suite, "x.yaml"
)


@pytest.fixture(autouse=True)
def _same_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The recorder sets defaults for MLflow in the environment; other tests must not see them."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Recorder, Path]:
    """A client on the store of a sweep of one good trial and one that failed."""
    workdir = tmp_path_factory.mktemp("work")
    store = TrialStore(workdir / "trials")
    good, bad = fakes.result(fakes.spec()), fakes.failed(fakes.spec(settings=fakes.KL))
    store.put(Outcome(good, fakes.NODES, {"per_sample": fakes.hits(3)}, {"worst.png": b"picture"}))
    store.put(Outcome(bad))
    report = workdir / "report.html"
    report.write_text("<html></html>")
    recorder = Recorder(SUITE, "sweep-1", workdir, store)
    specs = [good.spec, bad.spec]
    recorder.planned(specs)
    recorder.prepared(Preparation(specs=tuple(specs)), Prepared(statistics="x", seconds={"statistics": 1.5}))
    recorder.finished(good, reused=False)
    recorder.finished(bad, reused=True)
    verdicts = {good.spec.key: "PASS", bad.spec.key: "ERROR", "": "ERROR"}
    assert (
        recorder.close(
            Closing(status=RunStatus.FAILED, metrics={"sweep.accuracy.best": 0.9}, verdicts=verdicts), [report]
        )
        is None
    )
    from mlflow import MlflowClient

    return MlflowClient(default_tracking_uri(workdir)), recorder, workdir


def children(recorded: tuple[Any, Recorder, Path]) -> dict[str, Any]:
    client, recorder, _ = recorded
    experiment = client.get_experiment_by_name("mine")
    runs = client.search_runs([experiment.experiment_id], f"tags.`lab.parent` = '{recorder.place.run}'")
    return {run.data.tags["lab.trial"]: run for run in runs}


def test_the_sweep_is_the_parent_run(recorded: tuple[Any, Recorder, Path]) -> None:
    client, recorder, _ = recorded
    parent = client.get_run(recorder.place.run)
    assert parent.info.status == "FAILED"
    assert parent.data.metrics == {"sweep.accuracy.best": 0.9}
    tags = parent.data.tags
    assert {tags[f"lab.{name}"] for name in ("suite", "suite_version", "verdict", "trials")} == {"mine", "2", "ERROR"}
    assert tags["mlflow.note.content"] == "A suite."
    assert sorted(item.path for item in client.list_artifacts(recorder.place.run)) == ["report.html", "suite.yaml"]


def test_a_trial_is_a_child_run_with_all_its_figures(recorded: tuple[Any, Recorder, Path]) -> None:
    client, _, _ = recorded
    run = children(recorded)["net/bayes-e/max"]
    assert run.info.status == "FINISHED"
    assert sorted(run.data.metrics)[:4] == ["accuracy", "cosine", "delta", "latency_ms"]
    figures = fakes.result(fakes.spec()).metrics()
    assert run.data.metrics["delta"] == figures["accuracy.delta"]
    assert run.data.metrics["more.agreement"] == figures["agreement"]
    assert run.data.metrics["seconds.quantize"] == 0.25
    assert len(run.data.metrics) == len(figures) + 1
    assert run.data.params == {"model": "net", "march": "bayes-e", "calibration_type": "max"}
    assert run.info.run_name == "max #swee"
    tags = run.data.tags
    assert tags["lab.trial_key"] == fakes.spec().key
    assert (tags["lab.verdict"], tags["lab.reused"]) == ("PASS", "false")
    assert tags["lab.engine_version"].startswith("0.")
    assert run.info.end_time - run.info.start_time == 250
    assert sorted(item.path for item in client.list_artifacts(run.info.run_id)) == [
        *("nodes.csv", "result.json", "worst.png")
    ]


def test_a_failed_trial_says_stage_and_symptom(recorded: tuple[Any, Recorder, Path]) -> None:
    run = children(recorded)["net/bayes-e/kl"]
    assert run.info.status == "FAILED"
    assert run.data.metrics == {}
    tags = run.data.tags
    found = {name: tags[f"lab.{name}"] for name in ("failed_stage", "symptom", "message", "verdict", "reused")}
    assert found == {
        "failed_stage": "quantize",
        "symptom": "refused",
        "message": "no <b>rule</b> for Foo",
        "verdict": "ERROR",
        "reused": "true",
    }


def test_all_runs_have_the_same_params(recorded: tuple[Any, Recorder, Path]) -> None:
    assert len({frozenset(run.data.params) for run in children(recorded).values()}) == 1


def test_nothing_lies_outside_the_working_directory(recorded: tuple[Any, Recorder, Path]) -> None:
    client, _, workdir = recorded
    assert client.get_experiment_by_name("mine").artifact_location.startswith(workdir.as_uri())
    assert not (Path.cwd() / "mlruns").exists()


def test_a_store_that_is_away_costs_the_record_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recorder = Recorder(SUITE, "sweep-1", tmp_path, TrialStore(tmp_path / "trials"), "http://127.0.0.1:9")
    recorder.planned([fakes.spec()])
    recorder.finished(fakes.result(fakes.spec()), reused=False)
    problem = recorder.close(Closing(status=RunStatus.FINISHED))
    assert problem is not None
    assert problem.startswith("http://127.0.0.1:9: ")


@pytest.mark.nightly
def test_a_store_whose_making_was_cut_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, signal, sys, sqlalchemy\n"
        "from pathlib import Path\n"
        "from harness.tracking.record import Recorder\n"
        "from harness.trials.trial import TrialStore\n"
        "from tests.harness.tracking.test_record import SUITE\n"
        "@sqlalchemy.event.listens_for(sqlalchemy.Engine, 'before_cursor_execute')\n"
        "def die(connection, cursor, statement, *rest):\n"
        "    if 'index_params_run_uuid' in statement: os.kill(os.getpid(), signal.SIGKILL)\n"
        "workdir = Path(sys.argv[1])\n"
        "recorder = Recorder(SUITE, 'cut', workdir, TrialStore(workdir / 'trials'))\n"
        "recorder.planned([]); recorder.place.run\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where no empty store is kept
    killed = subprocess.run(command, cwd=Path(__file__).parents[3], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "cache" / "ptqlab" / "mlflow").exists()
    recorder = Recorder(SUITE, "next", tmp_path, TrialStore(tmp_path / "trials"))
    recorder.planned([])
    assert recorder.close(Closing(status=RunStatus.FINISHED)) is None


def reusing(workdir: Path, store: TrialStore, sweep: str, results: list[Any], reused: list[bool]) -> Recorder:
    """A whole sweep of these results."""
    recorder = Recorder(SUITE, sweep, workdir, store)
    recorder.planned([result.spec for result in results])
    for result, old in zip(results, reused, strict=True):
        recorder.finished(result, reused=old)
    assert recorder.close(Closing(status=RunStatus.FINISHED)) is None
    return recorder


def test_a_sweep_that_reused_everything_writes_no_trials_again(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    store = TrialStore(tmp_path / "trials")
    results = [fakes.result(fakes.spec()), fakes.result(fakes.spec(settings=fakes.KL))]
    first = reusing(tmp_path, store, "one", results, [False, False])
    again = reusing(tmp_path, store, "two", results, [True, True])
    third = reusing(tmp_path, store, "three", results, [True, True])
    part = reusing(tmp_path, store, "four", results, [True, False])
    client = MlflowClient(default_tracking_uri(tmp_path))
    experiment = client.get_experiment_by_name("mine").experiment_id
    count = {
        recorder.place.run: len(client.search_runs([experiment], f"tags.`lab.parent` = '{recorder.place.run}'"))
        for recorder in (first, again, third, part)
    }
    assert list(count.values()) == [2, 0, 0, 2]
    for recorder in (again, third):
        tags = client.get_run(recorder.place.run).data.tags
        assert tags["lab.same_trials_as"] == first.place.run
        assert "All 2 trials were reused" in tags["mlflow.note.content"]


def test_a_run_that_was_cut_off_does_not_look_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever write a kill stops at, the run is finished only if all of it is there."""
    from mlflow import MlflowClient

    def fail(*_: object, **__: object) -> None:
        raise OSError("cut off")

    for name in ("log_batch", "log_artifacts", "set_terminated"):
        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, name, fail)
            recorder = Recorder(SUITE, f"cut at {name}", tmp_path, TrialStore(tmp_path / "trials"))
            recorder.planned([fakes.spec()])
            recorder.finished(fakes.result(fakes.spec()), reused=False)
            assert recorder.close(Closing(status=RunStatus.FINISHED)) is not None
    client = MlflowClient(default_tracking_uri(tmp_path))
    experiment = client.get_experiment_by_name("mine").experiment_id
    runs = client.search_runs([experiment])
    assert len(runs) == 5
    assert {run.info.status for run in runs} <= {"RUNNING", "KILLED"}  # a later sweep closes those it finds dead


def test_the_experiment_holds_a_view_of_every_model(recorded: tuple[Any, Recorder, Path]) -> None:
    client, recorder, _ = recorded
    tags = client.get_experiment_by_name("mine").tags
    saved = json.loads(tags[f"mlflow.sharedViewState.{view_key('net')}"])
    assert saved["name"] == "Trials of net"
    state = json.loads(saved["state"])
    assert state["searchFilter"] == "tags.lab.kind = 'trial' and params.model = 'net'"
    (parallel,) = (chart for chart in state["compareRunCharts"] if chart["type"] == "PARALLEL")
    assert parallel["selectedParams"] == ["calibration_type"]
    assert parallel["selectedMetrics"] == ["accuracy", "cosine", "delta", "latency_ms"]
    experiment = client.get_experiment_by_name("mine").experiment_id
    assert len(client.search_runs([experiment], state["searchFilter"])) == 2
    assert recorder.place.group == experiment


def test_a_run_whose_answer_got_lost_is_not_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    create = MlflowClient.create_run

    def twice(self: MlflowClient, *arguments: Any, **named: Any) -> Any:
        create(self, *arguments, **named)
        return create(self, *arguments, **named)

    monkeypatch.setattr(MlflowClient, "create_run", twice)
    recorder = Recorder(SUITE, "asked again", tmp_path, TrialStore(tmp_path / "trials"))
    recorder.planned([fakes.spec()])
    recorder.finished(fakes.result(fakes.spec()), reused=False)
    assert recorder.close(Closing(status=RunStatus.FINISHED)) is None
    client = MlflowClient(default_tracking_uri(tmp_path))
    runs = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert len(runs) == 2
    assert {run.info.status for run in runs} == {"FINISHED"}
