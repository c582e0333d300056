"""What is written to MLflow and read from it, with a stand-in for the store; ``test_record`` has a real one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from engine.errors import ConfigError
from harness.files.strict_yaml import parse
from harness.suites.settings import Settings
from harness.suites.suite import Suite
from harness.tracking import aliases, mlflow_store
from harness.tracking.aliases import ANCHOR, LAST_GOOD, NoAliasError
from harness.tracking.mlflow_store import PARENT, MlflowTracker, connect, default_tracking_uri
from harness.tracking.tracker import Closing, Recorded, RunStatus, SweepStart
from harness.tracking.trial_run import params
from harness.trials.trial import Failure, Outcome, Symptom, TrialStore
from tests.harness import fakes

SUITE = parse({"name": "mine", "version": 2, "models": "net", "sweep": {}}, Suite, "x.yaml")


class Client:
    """A store in memory: one experiment, runs with tags, figures and times; searches give one run a page."""

    def __init__(self) -> None:
        self.experiment: Any = None
        self.runs: dict[str, Any] = {}
        self.files: list[tuple[str, str]] = []
        self.away = False

    def get_experiment_by_name(self, name: str) -> Any:
        if self.away:
            raise MlflowException("no\n route")
        return self.experiment

    def create_experiment(self, name: str, artifact_location: str | None, tags: dict[str, str]) -> str:
        self.experiment = SimpleNamespace(experiment_id="7", tags=dict(tags), artifact_location=artifact_location)
        return "7"

    def create_run(self, experiment: str, start_time: int, tags: dict[str, str]) -> Any:
        info = SimpleNamespace(run_id=f"run{len(self.runs)}", start_time=start_time, end_time=None, status="RUNNING")
        info.experiment_id = experiment
        self.runs[info.run_id] = SimpleNamespace(
            info=info, data=SimpleNamespace(tags=dict(tags), metrics={}, params={})
        )
        return self.runs[info.run_id]

    def get_run(self, run: str) -> Any:
        return self.runs[run]

    def search_runs(self, experiments: list[str], query: str, max_results: int, page_token: str | None) -> Any:
        class Page(list[Any]):
            token = ""

        found = [run for run in self.runs.values() if query == f"tags.`lab.sweep` = '{run.data.tags.get('lab.sweep')}'"]
        start = int(page_token or 0)
        page = Page(found[start : start + 1])
        page.token = str(start + 1) if start + 1 < len(found) else ""
        return page

    def log_batch(self, run: str, metrics: list[Any], params: list[Any]) -> None:
        data = self.runs[run].data
        data.metrics |= {metric.key: metric.value for metric in metrics}
        data.params |= {param.key: param.value for param in params}

    def log_artifact(self, run: str, path: str) -> None:
        self.files.append((run, Path(path).name))

    def log_artifacts(self, run: str, folder: str) -> None:
        self.files += [(run, path.name) for path in Path(folder).iterdir()]

    def log_text(self, run: str, text: str, name: str) -> None:
        self.files.append((run, name))

    def set_terminated(self, run: str, status: str, at: int) -> None:
        self.runs[run].info.status, self.runs[run].info.end_time = status, at

    def set_tag(self, run: str, name: str, value: str) -> None:
        self.runs[run].data.tags[name] = value

    def set_experiment_tag(self, experiment: str, name: str, value: str) -> None:
        assert experiment == "7"
        self.experiment.tags[name] = value

    def download_artifacts(self, run: str, name: str, folder: str) -> str:
        path = Path(folder) / name
        path.write_text(f"baseline of {run}")
        return str(path)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    found = Client()
    monkeypatch.setattr(mlflow_store, "connect", lambda uri: found)
    monkeypatch.setattr(mlflow_store, "engine_version", lambda: "0.1+abc")
    monkeypatch.setattr(mlflow_store, "git_commit", lambda: "0123456789ab-dirty")
    return found


def record(folder: Path, uri: str = "http://server", started: float = 100.0) -> MlflowTracker:
    tracker = MlflowTracker(uri, folder)
    place = tracker.begin(SweepStart(SUITE, "sweep", TrialStore(folder / "trials"), started, [fakes.spec()]))
    assert place == ("7", tracker.parent)
    return tracker


def fetch_baseline(uri: str, suite: str, alias: str, folder: Path) -> Path:
    return aliases.fetch_baseline(MlflowTracker(uri, folder), suite, alias, folder)


def set_alias(uri: str, run: str, alias: str) -> None:
    MlflowTracker(uri, Path()).set_alias(run, alias)


def test_a_sweep_is_written_once_however_often(client: Client, tmp_path: Path) -> None:
    store = TrialStore(tmp_path / "trials")
    good, bad = fakes.result(fakes.spec()), fakes.failed(fakes.spec(settings=fakes.KL))
    for result in (good, bad):
        store.put(Outcome(result, fakes.NODES if result.ok else ()))
    for _ in range(2):
        written = record(tmp_path)
        for result in (good, bad):
            written.trial(result, reused=False)
        written.end(
            Closing(
                status=RunStatus.FAILED,
                verdicts={"": "ERROR", good.spec.key: "PASS", "x": "?"},
                twins={bad.spec.key: good.spec.id, "x": "?"},
                at=9.0,
            )
        )
    assert len(client.runs) == 3
    parent, first, second = client.runs.values()
    assert (parent.info.status, parent.info.start_time, parent.info.end_time) == ("FAILED", 100_000, 9000)
    assert (first.info.status, second.info.status) == ("FINISHED", "FAILED")
    assert first.info.end_time - first.info.start_time == 250
    assert [run.data.tags.get("lab.verdict") for run in (parent, first, second)] == ["ERROR", "PASS", None]
    assert all(run.data.tags["lab.complete"] == "true" for run in (parent, first, second))
    assert first.data.tags[PARENT] == parent.info.run_id
    assert client.files.count((first.info.run_id, "result.json")) == 1
    assert second.data.tags["lab.symptom"] == "refused"
    assert [run.data.tags.get("lab.same_as") for run in (first, second)] == [None, good.spec.id]


def test_a_child_that_was_cut_off_is_written_again(client: Client, tmp_path: Path) -> None:
    good = fakes.result(fakes.spec())
    record(tmp_path).trial(good, reused=False)
    _, child = client.runs.values()
    del child.data.tags["lab.complete"]
    child.data.metrics.clear()
    record(tmp_path).trial(good, reused=True)
    assert len(client.runs) == 2
    assert child.data.metrics["accuracy"] == 0.9


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("http://server", False),
        ("https://server", False),
        ("databricks://x", False),
        ("sqlite:///x", True),
        ("/x", True),
    ],
)
def test_artifacts_lie_beside_a_store_of_this_machine(uri: str, local: bool, client: Client, tmp_path: Path) -> None:
    record(tmp_path, uri)
    expected = (tmp_path.resolve() / "mlartifacts" / "mine").as_uri() if local else None
    assert client.experiment.artifact_location == expected


def test_tags_say_what_computed_it_and_are_cut_to_what_every_store_takes(client: Client, tmp_path: Path) -> None:
    failure = Failure(stage="quantize", symptom=Symptom.DEFECT, message="x" * 5000)
    result = fakes.failed(fakes.spec()).model_copy(update={"failure": failure})
    record(tmp_path).trial(result, reused=True)
    tags = list(client.runs.values())[1].data.tags
    assert len(tags["lab.message"]) == 4000
    assert (tags["lab.git_commit"], tags["lab.git_dirty"]) == ("0123456789ab", "true")
    assert (tags["lab.engine_version"], tags["lab.reused"], tags["lab.unmet_requests"]) == ("0.1+abc", "true", "0")


def test_runs_of_a_killed_sweep_end_with_its_last_trial(client: Client, tmp_path: Path) -> None:
    MlflowTracker("uri", tmp_path).close_killed("mine", "sweep")  # nothing is there yet
    written = record(tmp_path)
    written.trial(fakes.result(fakes.spec()), reused=False)
    parent, child = client.runs.values()
    written.close_killed("mine", "sweep")
    assert (parent.info.status, parent.info.end_time) == ("KILLED", child.info.end_time)
    assert child.info.status == "FINISHED"


class TestAlias:
    def test_an_alias_is_a_tag_of_the_suite(self, client: Client, tmp_path: Path) -> None:
        run = record(tmp_path).parent
        set_alias("uri", run, LAST_GOOD)
        assert client.experiment.tags["lab.alias.last-good"] == run
        path = fetch_baseline("uri", "mine", LAST_GOOD, tmp_path / "copies")
        assert path.read_text() == f"baseline of {run}"
        with pytest.raises(NoAliasError, match="baseline @anchor: no sweep of suite mine has this alias in uri"):
            fetch_baseline("uri", "mine", ANCHOR, tmp_path / "other")

    def test_a_copy_serves_while_the_store_is_away(self, client: Client, tmp_path: Path) -> None:
        folder = tmp_path / "copies"
        client.away = True
        with pytest.raises(ConfigError, match="baseline @anchor: uri: no route") as first:
            fetch_baseline("uri", "mine", ANCHOR, folder)
        assert not isinstance(first.value, NoAliasError)
        client.away = False
        set_alias("uri", record(tmp_path).parent, ANCHOR)
        copy = fetch_baseline("uri", "mine", ANCHOR, folder)
        client.away = True
        assert fetch_baseline("uri", "mine", ANCHOR, folder) == copy

    def test_an_alias_that_is_gone_takes_the_copy_with_it(self, client: Client, tmp_path: Path) -> None:
        folder = tmp_path / "copies"
        set_alias("uri", record(tmp_path).parent, ANCHOR)
        copy = fetch_baseline("uri", "mine", ANCHOR, folder)
        client.experiment.tags.clear()
        for away in (False, True):
            client.away = away
            with pytest.raises(NoAliasError):
                fetch_baseline("uri", "mine", ANCHOR, folder)
        assert not copy.exists()


def test_params_that_are_not_asked_for_have_a_word() -> None:
    given = Settings.model_validate(
        {"int16": "all", "input_type_rt": "nv12", "calibration_seed": 0, "asymmetric": True}
    )
    names = ("int16", "input_type_rt", "calibration_seed", "asymmetric", "per_channel")
    found = params(fakes.spec(settings=given), names)
    assert (found["int16"], found["input_type_rt"], found["calibration_seed"]) == ("all", "nv12", "0")
    assert (found["asymmetric"], found["per_channel"]) == ("true", "false")
    plain = params(fakes.spec(), names)
    assert (plain["int16"], plain["input_type_rt"], plain["calibration_seed"]) == ("none", "card", "first")


def test_the_default_store_is_in_the_working_directory(tmp_path: Path) -> None:
    assert default_tracking_uri(tmp_path) == f"sqlite:///{tmp_path.resolve()}/mlflow.db"


def test_a_store_that_refuses_is_an_error_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = connect(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("DROP TABLE experiments")
    with pytest.raises(MlflowException, match="no such table"):
        client.search_experiments()
    assert "Traceback" not in capsys.readouterr().err


def test_a_database_that_cannot_be_opened_is_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 1)  # it waits 100 s before the tenth
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(OSError, match="unable to open database file"):
        connect(f"sqlite:///{tmp_path / 'mlflow.db'}")


@pytest.mark.timeout(600)
@pytest.mark.nightly
def test_two_processes_that_connect_to_a_new_store_at_once(tmp_path: Path) -> None:
    """MLflow makes its tables step by step: two at once end in each other's steps."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    code = f"from harness.tracking.mlflow_store import connect; connect({uri!r}).search_experiments()"
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said


def test_links_lead_to_the_views_of_the_experiment(tmp_path: Path) -> None:
    tracker = MlflowTracker("sqlite:///x", tmp_path)
    found = tracker.links(Recorded(tracker="mlflow", uri="sqlite:///x", group="7", run="r"), ["", "net"])
    assert (found.title, found.how, found.is_address) == ("MLflow", "mlflow ui --backend-store-uri sqlite:///x", False)
    assert found.server == "http://127.0.0.1:5000"
    assert [view.name for view in found.views] == ["all models", "net"]
    assert [word for word, _ in found.views[0].links] == ["compare", "table"]
    assert all("/#/experiments/7/" in address for view in found.views for _, address in view.links)
    assert not tracker.links(Recorded(tracker="mlflow", uri="http://x"), ["net"]).views, "it was never opened"


class TestMaking:
    """Tables are made once per version of MLflow and user, and every store begins as a copy."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return tmp_path / "cache" / "ptqlab" / "mlflow"

    def tables(self, path: Path) -> dict[str, Any]:
        """Columns by table, and the version of the tables."""
        with closing(sqlite3.connect(path)) as database:
            names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            columns = {name: database.execute(f'PRAGMA table_info("{name}")').fetchall() for name in names}
            return {**columns, "version": database.execute("SELECT version_num FROM alembic_version").fetchall()}

    def made(self, folder: Path) -> Path:
        folder.mkdir()
        client = connect(default_tracking_uri(folder))
        assert [each.name for each in client.search_experiments()] == ["Default"]
        assert client.get_experiment("0").artifact_location == (folder / "mlartifacts" / "0").as_uri()
        return folder / mlflow_store.DATABASE

    def test_a_copy_is_what_mlflow_makes(self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from mlflow import MlflowClient

        alone = tmp_path / "alone.db"
        MlflowClient(f"sqlite:///{alone}")
        first = self.made(tmp_path / "first")
        kept = next(cache.iterdir()).read_bytes()
        monkeypatch.setattr(mlflow_store, "write_kept", lambda *_: pytest.fail("made again"))
        second = self.made(tmp_path / "second")
        assert self.tables(alone) == self.tables(first) == self.tables(second)
        assert [path.read_bytes() for path in cache.iterdir()] == [kept]

    @pytest.mark.nightly
    def test_a_damaged_copy_is_made_again(self, tmp_path: Path, cache: Path) -> None:
        first = self.made(tmp_path / "first")
        file = next(cache.iterdir())
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + b"x")
        assert self.tables(self.made(tmp_path / "second")) == self.tables(first)
        assert file.read_bytes() != whole[:-1] + b"x"

    def test_a_cache_that_cannot_be_written_is_done_without(self, tmp_path: Path) -> None:
        (tmp_path / "cache").write_text("a file", encoding="utf-8")
        self.made(tmp_path / "first")
