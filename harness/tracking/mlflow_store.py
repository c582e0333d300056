"""One sweep in an MLflow store, written idempotently: experiment = suite, parent run = sweep, child run = trial.

Everything is found again by tags (``lab.sweep``, ``lab.trial_key``) before it is created, and times are those of the
results: writing a sweep a second time, or after half of it got lost on the way, leaves one complete record.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from engine.fingerprint import version_of
from engine.user_cache import read_kept, write_kept
from engine.visible import in_markdown
from harness.files.cache import locked
from harness.files.strict_yaml import as_plain
from harness.shipping.record import SHIP, files_to_keep
from harness.suites.suite import Suite
from harness.tracking.inputs import Inputs, describe_inputs
from harness.tracking.tracker import (
    BASELINE_FILE,
    Closing,
    Links,
    Recorded,
    RecordedShip,
    RunStatus,
    SweepStart,
    Tracker,
    View,
)
from harness.tracking.trial_run import metrics, params, run_name, swept, trials_digest
from harness.tracking.views import TAG as VIEW_TAG
from harness.tracking.views import compare_link, how_to_open, server_of, table_link, view_key, view_tag
from harness.trials.files import TRIAL_PAGE
from harness.trials.sums import SUMS_FILE
from harness.trials.trial import PREDICTIONS_FILE, TrialResult, TrialSpec, TrialStore
from harness.trials.version import engine_version, git_commit

if TYPE_CHECKING:
    from mlflow import MlflowClient

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"

_SQLITE = "sqlite:///"

_DIGEST = hashlib.sha256().digest_size

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0.1",
}
"""Environment with which MLflow is imported: no telemetry, short timeouts for a server that cannot be reached, and a
short wait before a call that failed is repeated: MLflow's own wait is up to 1 s, and only one thread calls it."""

_TAG_LENGTH = 4000
"""Longest value of a tag that every MLflow store takes."""

_COMPLETE = "lab.complete"
"""Tag of a run to which everything has been written."""


_TRIALS = "lab.trials_digest"
"""Tag of a sweep's run: equal for sweeps of the same trials."""

PARENT = "lab.parent"
"""Tag of a trial's run: the sweep's run. Not MLflow's own, whose pages fold such runs away."""

_MOST_VIEWS = 100
"""Models that have a view of their own."""

_ALIAS = "lab.alias."
"""What names of an experiment's tags begin with that hold the runs of aliases."""

_SAME = "lab.same_trials_as"
"""Tag of a sweep's run whose trials were all reused: the run that has them."""


_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Makes MLflow's pages show an experiment as runs to compare, rather than as traces of a chat."""


def default_tracking_uri(workdir: Path) -> str:
    """A SQLite store in the working directory."""
    return f"sqlite:///{workdir.resolve() / DATABASE}"


def _make_database(path: Path) -> None:
    """Make a SQLite store that is whole or not there at all: MLflow never opens one whose tables are incomplete.

    It uses a write-ahead log: commits take half the time, and readers do not block the sweep.
    """
    if path.exists():
        return
    with locked(path), tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        if path.exists():  # another sweep was faster
            return
        fresh = Path(folder).resolve() / path.name
        fresh.write_bytes(_empty_store(Path(folder).resolve()))
        with contextlib.closing(sqlite3.connect(fresh)) as database, database:
            place = (path.resolve().parent / ARTIFACTS / "0").as_uri()
            database.execute("UPDATE experiments SET artifact_location = ?", [place])
        os.replace(fresh, path)


def _empty_store(folder: Path) -> bytes:
    """A SQLite file with MLflow's tables and the experiment that every store has.

    It is made in ``folder`` once per version of MLflow and user: MLflow makes its tables as its versions changed them
    one after the other, which takes two CPU seconds.
    """
    name = f"mlflow/{version_of('mlflow')}.db"
    kept = read_kept(name) or b""
    digest, content = kept[:_DIGEST], kept[_DIGEST:]
    if digest == hashlib.sha256(content).digest():
        return content
    path = folder / "made.db"
    _client(f"{_SQLITE}{path}")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
    content = path.read_bytes()
    write_kept(name, hashlib.sha256(content).digest() + content)
    return content


def connect(tracking_uri: str) -> MlflowClient:
    """A client of the store at ``tracking_uri``; a SQLite store that is not there is made, by one process alone.

    Raises:
        mlflow.exceptions.MlflowException, OSError: the store is away or cannot be opened.
    """
    database = Path(tracking_uri.removeprefix(_SQLITE))
    if tracking_uri.startswith(_SQLITE) and database.parent.is_dir():
        _make_database(database)
    return _client(tracking_uri)


def _client(tracking_uri: str) -> MlflowClient:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # takes seconds: only where there is something to record
    from sqlalchemy.exc import SQLAlchemyError

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # What a store cannot take it raises; there it also prints the traceback.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    try:
        return MlflowClient(tracking_uri)
    except SQLAlchemyError as error:  # of a database that cannot be opened, MLflow hands on the package's own
        raise OSError(f"{tracking_uri}: {str(error).splitlines()[0]}") from error


class MlflowTracker(Tracker):
    """One sweep in an MLflow store; ``uri`` is any that MLflow knows."""

    title = "MLflow"

    _suite: Suite
    _sweep: str
    _store: TrialStore
    _client: MlflowClient
    _swept: tuple[str, ...]
    _experiment: str
    _children: dict[str, str]
    _complete: set[str]
    _inputs: dict[str, Inputs | None]
    parent: str

    @classmethod
    def default_uri(cls, workdir: Path) -> str:
        """See :func:`default_tracking_uri`."""
        return default_tracking_uri(workdir)

    @classmethod
    def failures(cls) -> tuple[type[Exception], ...]:
        """MLflow's own, and those of the system."""
        from mlflow.exceptions import MlflowException

        return (MlflowException, OSError)

    def begin(self, start: SweepStart) -> tuple[str, str]:
        """Open experiment and parent run; their ids."""
        self._suite, self._sweep, self._store = start.suite, start.sweep, start.store
        self._client = connect(self.uri)
        local = not self.uri.startswith(("http:", "https:", "databricks"))
        self._swept = swept(start.suite)
        self._experiment = self._open_experiment(self.workdir if local else None, start.specs)
        runs = _find_runs(self._client, self._experiment, start.sweep)
        by_key = {run.data.tags.get("lab.trial_key", ""): run.info.run_id for run in runs}
        parent = by_key.pop("", None)
        self._children = by_key
        self._complete = {run.info.run_id for run in runs if _is_complete(run)}
        self._inputs = {}
        self.parent = parent or self._open_parent(start.started, start.specs)
        return self._experiment, self.parent

    def reused_whole(self, specs: Sequence[TrialSpec]) -> bool:
        """Refer to an earlier sweep that recorded the same trials, all of which were reused; whether there is one."""
        same = f"tags.`{_TRIALS}` = '{trials_digest(specs)}' and tags.`{_COMPLETE}` = 'true'"
        found = self._client.search_runs([self._experiment], same, max_results=1000)
        earlier = next((run for run in found if _SAME not in run.data.tags and run.info.run_id != self.parent), None)
        if earlier is None:
            return False
        note = f"All {len(specs)} trials were reused; they are runs of {earlier.info.run_name}."
        self._client.set_tag(self.parent, _SAME, earlier.info.run_id)
        text = f"{in_markdown(self._suite.description)}\n\n{note}".strip()
        self._client.set_tag(self.parent, "mlflow.note.content", text)
        return True

    def trial(self, result: TrialResult, *, reused: bool) -> None:
        """One child run; nothing if it is complete already."""
        spec = result.spec
        if self._children.get(spec.key) in self._complete:
            return
        finished = datetime.fromisoformat(result.finished_at).timestamp()
        started = finished - sum(result.seconds.values())
        run = self._children.get(spec.key) or self._start(self._trial_tags(result, reused), started)
        self._children[spec.key] = run
        self._log_files(run, self._store.folder(spec.key))
        self._log_inputs(run, spec)
        self._log(run, metrics(result), finished, params(spec, self._swept))
        # Last, and then the mark: a run that a kill cut off must not look finished.
        status = RunStatus.FINISHED if result.ok else RunStatus.FAILED
        self._client.set_terminated(run, status.value, _milliseconds(finished))
        self._client.set_tag(run, _COMPLETE, "true")

    def artefact(self, path: Path) -> None:
        """A file of the sweep's run."""
        self._client.log_artifact(self.parent, str(path))

    def end(self, closing: Closing) -> None:
        """Finish the sweep's run."""
        self._remove_doubles()
        for key, verdict in closing.verdicts.items():
            run = self._children.get(key) if key else self.parent
            if run is not None:
                self._client.set_tag(run, "lab.verdict", verdict)
        for key, earlier in closing.twins.items():
            if key in self._children:
                self._client.set_tag(self._children[key], "lab.same_as", earlier)
        for key, ship in closing.ships.items():
            if key in self._children:
                self._log_ship(self._children[key], self._store.folder(key), ship)
        for name, value in closing.tags.items():
            self._client.set_tag(self.parent, name, value[:_TAG_LENGTH])
        self._log(self.parent, closing.metrics, closing.at)
        self._client.set_terminated(self.parent, closing.status.value, _milliseconds(closing.at))
        self._client.set_tag(self.parent, _COMPLETE, "true")

    def close_killed(self, suite: str, sweep: str) -> None:
        """Mark the runs that a killed sweep left incomplete.

        The time of the kill is unknown, so they end with the last complete trial.
        """
        client = connect(self.uri)
        experiment = client.get_experiment_by_name(suite)
        if experiment is None:
            return
        runs = _find_runs(client, experiment.experiment_id, sweep)
        last = max((run.info.end_time or run.info.start_time for run in runs), default=0)
        for run in runs:
            if not _is_complete(run):
                client.set_tag(run.info.run_id, "lab.verdict", "KILLED")
                client.set_terminated(run.info.run_id, RunStatus.KILLED.value, last)

    def links(self, place: Recorded, models: Sequence[str]) -> Links:
        """How to serve the store, and the views of each model that MLflow's pages then have."""
        views = [
            View(
                model or "all models",
                (
                    ("compare", compare_link(place.uri, place.group, model)),
                    ("table", table_link(place.uri, place.group, model)),
                ),
            )
            for model in (models if place.group else ())
        ]
        return Links(self.title, how_to_open(place.uri), server_of(place.uri), views)

    def set_alias(self, run: str, alias: str) -> None:
        """Experiment tag ``lab.alias.ALIAS``, whose value is a run id."""
        client = connect(self.uri)
        client.set_experiment_tag(client.get_run(run).info.experiment_id, f"{_ALIAS}{alias}", run)

    def baseline(self, suite: str, alias: str, folder: Path) -> Path | None:
        """From the run that the experiment's tag names."""
        client = connect(self.uri)
        experiment = client.get_experiment_by_name(suite)
        run = experiment.tags.get(f"{_ALIAS}{alias}") if experiment is not None else None
        return None if run is None else Path(client.download_artifacts(run, BASELINE_FILE, str(folder)))

    def _remove_doubles(self) -> None:
        """Delete runs that exist twice: the server created one, its answer was lost, and MLflow asked again."""
        known = {self.parent, *self._children.values()}
        for run in _find_runs(self._client, self._experiment, self._sweep):
            if run.info.run_id not in known:
                self._client.delete_run(run.info.run_id)

    def _open_experiment(self, local: Path | None, specs: Sequence[TrialSpec]) -> str:
        found = self._client.get_experiment_by_name(self._suite.name)
        if found is not None:
            experiment, tags = str(found.experiment_id), found.tags
        else:
            location = None if local is None else (local.resolve() / ARTIFACTS / self._suite.name).as_uri()
            made = self._client.create_experiment(self._suite.name, artifact_location=location, tags=_KIND)
            experiment, tags = str(made), {}
        for name, value in self._views(specs, tags).items():
            if tags.get(name) != value:
                self._client.set_experiment_tag(experiment, name, value)
        return experiment

    def _views(self, specs: Sequence[TrialSpec], tags: Mapping[str, str]) -> dict[str, str]:
        """Tags that hold the views of the trials, all of them and those of each model; ``tags``: what is there."""
        models = list(dict.fromkeys(spec.model for spec in specs))
        marches = {spec.march for spec in specs}
        axes = [*(["march"] if len(marches) > 1 else []), *self._swept]
        everything = [*(["model"] if len(models) > 1 else []), *axes]
        found = {}
        for model in ["", *models[:_MOST_VIEWS]]:
            name = f"{VIEW_TAG}{view_key(model)}"
            found[name] = view_tag(model, axes if model else everything, tags.get(name), time.time())
        return found

    def _open_parent(self, started: float, specs: Sequence[TrialSpec]) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        tags = {
            "mlflow.runName": f"{self._suite.name} v{self._suite.version} {when}",
            "mlflow.note.content": in_markdown(self._suite.description),
            "lab.kind": "sweep",
            "lab.trials": str(len(specs)),
            _TRIALS: trials_digest(specs),
            **self._common_tags(),
        }
        run = self._start(tags, started)
        self._client.log_text(run, yaml.safe_dump(as_plain(self._suite), sort_keys=False), "suite.yaml")
        return run

    def _start(self, tags: Mapping[str, str], started: float) -> str:
        run = self._client.create_run(
            self._experiment,
            start_time=_milliseconds(started),
            tags={name: value[:_TAG_LENGTH] for name, value in tags.items()},
        )
        return str(run.info.run_id)

    def _log(
        self,
        run: str,
        metrics: Mapping[str, float],
        at: float,
        params: Mapping[str, str] | None = None,
    ) -> None:
        """Log in one transaction."""
        from mlflow.entities import Metric, Param

        self._client.log_batch(
            run,
            metrics=[Metric(name, value, _milliseconds(at), 0) for name, value in metrics.items()],
            params=[Param(name, value) for name, value in (params or {}).items()],
        )

    def _log_files(self, run: str, folder: Path) -> None:
        """The files of a trial, but for the arrays that gates compare, in one call."""
        there = folder.is_dir()
        with tempfile.TemporaryDirectory(prefix=".record.", dir=folder.parent if there else None) as gathered:
            for file in folder.iterdir() if there else ():
                if file.name not in (PREDICTIONS_FILE, SUMS_FILE):
                    (Path(gathered) / file.name).symlink_to(file.resolve())
            self._client.log_artifacts(run, gathered)

    def _log_ship(self, run: str, folder: Path, ship: RecordedShip) -> None:
        """Whether what was measured is what was built, the ship folder, the file for the board and the new page."""
        self._client.set_tag(run, "lab.shipped", ship.text[:_TAG_LENGTH])
        self._client.set_tag(run, "lab.toolchain", ship.toolchain)
        page, root = folder / TRIAL_PAGE, folder / SHIP
        if page.is_file():
            self._client.log_artifact(run, str(page))
        for path in files_to_keep(root):
            self._client.log_artifact(run, str(path), str(path.parent.relative_to(folder)))

    def _log_inputs(self, run: str, spec: TrialSpec) -> None:
        """The data sets and the float model that a trial reads."""
        if spec.model not in self._inputs:
            self._inputs[spec.model] = describe_inputs(self._client, self._experiment, spec)
        inputs = self._inputs[spec.model]
        if inputs is not None:
            self._client.log_inputs(run, datasets=inputs.datasets, models=inputs.models)

    def _trial_tags(self, result: TrialResult, reused: bool) -> dict[str, str]:
        spec, failure = result.spec, result.failure
        tags = {
            PARENT: self.parent,
            "mlflow.runName": run_name(spec, self._sweep, self._suite),
            "lab.kind": "trial",
            "lab.trial": spec.id,
            "lab.trial_key": spec.key,
            "lab.reused": str(reused).lower(),
            "lab.unmet_requests": str(len(result.unmet)),
            "lab.calibration_samples": str(spec.calibration_samples),
            "lab.evaluation_samples": str(spec.evaluation_samples),
            **self._common_tags(),
        }
        if failure is not None:
            tags |= {
                "lab.failed_stage": failure.stage,
                "lab.symptom": failure.symptom.value,
                "lab.message": failure.text,
            }
        return tags

    def _common_tags(self) -> dict[str, str]:
        tags = {
            "mlflow.source.name": "ptqlab",
            "lab.sweep": self._sweep,
            "lab.suite": self._suite.name,
            "lab.suite_version": str(self._suite.version),
            "lab.engine_version": engine_version(),
        }
        commit = git_commit()
        if commit is None:
            return tags
        clean = commit.removesuffix("-dirty")
        return tags | {
            "lab.git_commit": clean,
            "lab.git_dirty": str(clean != commit).lower(),
            "mlflow.source.git.commit": clean,
        }


def _find_runs(client: MlflowClient, experiment: str, sweep: str) -> list[Any]:
    """All runs of a sweep that the store has."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs([experiment], f"tags.`lab.sweep` = '{sweep}'", max_results=1000, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def _is_complete(run: Any) -> bool:
    return bool(run.data.tags.get(_COMPLETE) == "true")


def _milliseconds(seconds: float) -> int:
    """A point in time as MLflow counts it."""
    return int(seconds * 1000)
