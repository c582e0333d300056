"""One sweep in an MLflow store, written idempotently: experiment = suite, parent run = sweep, child run = trial.

Everything is found again by tags (``lab.sweep``, ``lab.trial_key``) before it is created, and times are those of the
results: writing a sweep a second time, or after half of it got lost on the way, leaves one complete record.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field

from engine.errors import ConfigError, PtqlabError
from engine.ir import write_atomically
from harness.cache import locked
from harness.datasets import load_dataset_card
from harness.strict_yaml import StrictModel, as_plain
from harness.suites.settings import SWITCHES
from harness.suites.suite import Suite
from harness.trials.trial import NODES_FILE, RESULT_FILE, TrialResult, TrialSpec, TrialStore
from harness.version import engine_version, git_commit
from harness.zoo.cards import ModelCard, load_card

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"

LAST_GOOD = "last-good"
"""Alias of the last sweep of a suite that passed: experiment tag ``lab.alias.last-good``, whose value is a run id."""

ANCHOR = "anchor"
"""Alias of the sweep whose figures no later one may fall behind, however small the steps; a person sets it."""

BASELINE_FILE = "baseline.json"


_NO_ALIAS = "no_alias"
"""Empty file beside the copy of a baseline: the store had no such alias when it was last asked."""


class NoAliasError(ConfigError):
    """The store answers, and no sweep of the suite has the alias."""


_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""Environment that MLflow is imported with: it calls nobody, and a server that is away is noticed soon."""

_TAG_LENGTH = 4000
"""Longest value of a tag that every MLflow store takes."""

_DIGEST_LENGTH = 36
"""Longest digest of a dataset that every MLflow store takes."""


_COMPLETE = "lab.complete"
"""Tag of a run to which everything has been written."""


_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Makes MLflow's pages show an experiment as runs to compare, rather than as traces of a chat."""


class RunStatus(StrEnum):
    """How a run ended, in MLflow's words."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


class Closing(StrictModel):
    """How a sweep ended.

    Attributes:
        status: of the sweep.
        metrics: of the sweep.
        verdicts: of the gate, by trial key; under ``""`` that of the sweep.
        at: seconds since 1970.
    """

    status: RunStatus
    metrics: Mapping[str, float] = Field(default_factory=dict)
    verdicts: Mapping[str, str] = Field(default_factory=dict)
    at: float = Field(default_factory=time.time)


def default_tracking_uri(workdir: Path) -> str:
    """A SQLite store in the working directory."""
    return f"sqlite:///{workdir.resolve() / DATABASE}"


def _make_database(path: Path) -> None:
    """Make a SQLite store that is whole or not there at all: one whose tables are half made MLflow never opens again.

    It writes ahead: commits take half the time, and who reads it does not hold up the sweep.
    """
    if path.exists():
        return
    with locked(path), tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        if path.exists():  # another sweep was faster
            return
        fresh = Path(folder).resolve() / path.name
        connect(f"sqlite:///{fresh}")  # makes the tables
        with contextlib.closing(sqlite3.connect(fresh)) as database:
            database.execute("PRAGMA journal_mode=WAL")
        os.replace(fresh, path)


def connect(tracking_uri: str) -> MlflowClient:
    """A client of the store at ``tracking_uri``."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # takes seconds: only where there is something to record

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri)


@dataclass(frozen=True)
class _Inputs:
    """What MLflow is told that a trial reads."""

    datasets: list[Any]
    models: list[Any]


class SweepRecord:
    """The record of one sweep.

    Args:
        suite: what is swept.
        sweep: id of the sweep, unique for ever.
        workdir: where artifacts go if the store is a file or database of this machine.
        store: finished trials; their files become artifacts.
        tracking_uri: any that MLflow knows.
        started: seconds since 1970.
        trials: how many there are to be.
    """

    def __init__(
        self, suite: Suite, sweep: str, workdir: Path, store: TrialStore, tracking_uri: str, started: float, trials: int
    ) -> None:
        self._suite, self._sweep, self._store = suite, sweep, store
        if tracking_uri == default_tracking_uri(workdir):
            _make_database(workdir / DATABASE)
        self._client = connect(tracking_uri)
        local = not tracking_uri.startswith(("http:", "https:", "databricks"))
        self._experiment = self._open_experiment(workdir if local else None)
        runs = _find_runs(self._client, self._experiment, sweep)
        by_key = {run.data.tags.get("lab.trial_key", ""): run.info.run_id for run in runs}
        parent = by_key.pop("", None)
        self._children: dict[str, str] = by_key
        self._complete = {run.info.run_id for run in runs if _is_complete(run)}
        self._inputs: dict[str, _Inputs | None] = {}
        self.parent: str = parent or self._open_parent(started, trials)

    def shared(self, model: str, march: str, seconds: Mapping[str, float], at: float) -> None:
        """Times of stages that the trials of a model share."""
        self._log(self.parent, {f"seconds.{stage}.{model}.{march}": value for stage, value in seconds.items()}, at)

    def trial(self, result: TrialResult, *, reused: bool) -> None:
        """One child run; nothing if it is complete already."""
        spec = result.spec
        if self._children.get(spec.key) in self._complete:
            return
        finished = datetime.fromisoformat(result.finished_at).timestamp()
        started = finished - sum(result.seconds.values())
        run = self._children.get(spec.key) or self._start(self._trial_tags(result, reused), started)
        self._children[spec.key] = run
        for name in (RESULT_FILE, NODES_FILE):
            file = self._store.folder(spec.key) / name
            if file.is_file():
                self._client.log_artifact(run, str(file))
        self._log_inputs(run, spec)
        status = RunStatus.FINISHED if result.ok else RunStatus.FAILED
        self._client.set_terminated(run, status.value, _milliseconds(finished))
        seconds = {f"seconds.{stage}": value for stage, value in result.seconds.items()}
        self._log(run, result.metrics() | seconds, finished, _params(spec), complete=True)

    def close(self, closing: Closing, artifacts: Sequence[Path]) -> None:
        """Finish the sweep's run; ``artifacts`` are files of the sweep."""
        for key, verdict in closing.verdicts.items():
            run = self._children.get(key) if key else self.parent
            if run is not None:
                self._client.set_tag(run, "lab.verdict", verdict)
        for artifact in artifacts:
            self._client.log_artifact(self.parent, str(artifact))
        self._client.set_terminated(self.parent, closing.status.value, _milliseconds(closing.at))
        self._log(self.parent, closing.metrics, closing.at, complete=True)

    def _open_experiment(self, local: Path | None) -> str:
        found = self._client.get_experiment_by_name(self._suite.name)
        if found is not None:
            return str(found.experiment_id)
        location = None if local is None else (local.resolve() / ARTIFACTS / self._suite.name).as_uri()
        return str(self._client.create_experiment(self._suite.name, artifact_location=location, tags=_KIND))

    def _open_parent(self, started: float, trials: int) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        tags = {
            "mlflow.runName": f"{self._suite.name} v{self._suite.version} {when}",
            "mlflow.note.content": self._suite.description,
            "lab.trials": str(trials),
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
        *,
        complete: bool = False,
    ) -> None:
        """Log in one transaction; ``complete``: it is the last thing that is written to ``run``."""
        from mlflow.entities import Metric, Param, RunTag

        self._client.log_batch(
            run,
            metrics=[Metric(name, value, _milliseconds(at), 0) for name, value in metrics.items()],
            params=[Param(name, value) for name, value in (params or {}).items()],
            tags=[RunTag(_COMPLETE, "true")] if complete else [],
        )

    def _log_inputs(self, run: str, spec: TrialSpec) -> None:
        """The data sets and the float model that a trial reads."""
        if spec.model not in self._inputs:
            self._inputs[spec.model] = self._describe_inputs(spec)
        inputs = self._inputs[spec.model]
        if inputs is not None:
            self._client.log_inputs(run, datasets=inputs.datasets, models=inputs.models)

    def _describe_inputs(self, spec: TrialSpec) -> _Inputs | None:
        try:
            card = load_card(spec.model)
            data = load_dataset_card(card.dataset.name)
        except PtqlabError:  # a card that is gone since
            return None
        from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput

        datasets = [
            DatasetInput(
                Dataset(
                    name=f"{data.name}/{use.split}",
                    digest=spec.data[:_DIGEST_LENGTH],
                    source_type="ptqlab",
                    source=data.source,
                    profile=f'{{"split": "{use.split}", "num_rows": {use.count}}}',
                ),
                [InputTag("mlflow.data.context", context)],
            )
            for context, use in (("calibration", card.dataset.calibration), ("evaluation", card.dataset.evaluation))
        ]
        return _Inputs(datasets, [LoggedModelInput(self._external_model(card))])

    def _external_model(self, card: ModelCard) -> str:
        """Id of the float model in the store, which holds its description, not its file."""
        found = self._client.search_logged_models([self._experiment], f"name = '{card.name}'")
        for model in found:
            if model.tags.get("lab.digest") == card.digest:
                return str(model.model_id)
        created = self._client.create_logged_model(
            self._experiment,
            name=card.name,
            tags={"mlflow.model.isExternal": "true", "lab.digest": card.digest, "lab.licence": card.licence},
            params={"task": card.task.value, "origin": card.origin[:500], "version": str(card.version)},
            model_type="onnx",
        )
        self._client.finalize_logged_model(created.model_id, "READY")
        return str(created.model_id)

    def _trial_tags(self, result: TrialResult, reused: bool) -> dict[str, str]:
        spec, failure = result.spec, result.failure
        tags = {
            "mlflow.parentRunId": self.parent,
            "mlflow.runName": spec.id,
            "lab.trial": spec.id,
            "lab.trial_key": spec.key,
            "lab.reused": str(reused).lower(),
            "lab.unmet_requests": str(len(result.unmet)),
            **self._common_tags(),
        }
        if failure is not None:
            tags |= {
                "lab.failed_stage": failure.stage,
                "lab.symptom": failure.symptom.value,
                "lab.message": failure.message,
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


def close_killed(tracking_uri: str, suite: str, sweep: str) -> None:
    """Let the runs that a sweep left incomplete when it was killed say so.

    When it was killed nobody knows: they end with the last trial that is complete.
    """
    client = connect(tracking_uri)
    experiment = client.get_experiment_by_name(suite)
    if experiment is None:
        return
    runs = _find_runs(client, experiment.experiment_id, sweep)
    last = max((run.info.end_time or run.info.start_time for run in runs), default=0)
    for run in runs:
        if not _is_complete(run):
            client.set_terminated(run.info.run_id, RunStatus.KILLED.value, last)


def set_alias(tracking_uri: str, run: str, alias: str) -> None:
    """Let ``alias`` of the suite of sweep ``run`` mean that run."""
    client = connect(tracking_uri)
    client.set_experiment_tag(client.get_run(run).info.experiment_id, f"lab.alias.{alias}", run)


def fetch_baseline(tracking_uri: str, suite: str, alias: str, folder: Path) -> Path:
    """The baseline that the sweep with this alias left, as a file in ``folder``, which serves where the store is away.

    Raises:
        NoAliasError: the store answers, and no sweep has the alias.
        ConfigError: the store is away, or the file that the alias stands for is gone.
    """
    from mlflow.exceptions import MlflowException

    try:
        client = connect(tracking_uri)
        experiment = client.get_experiment_by_name(suite)
        run = experiment.tags.get(f"lab.alias.{alias}") if experiment is not None else None
        folder.mkdir(parents=True, exist_ok=True)
        if run is None:
            write_atomically(folder / _NO_ALIAS, b"")
            (folder / BASELINE_FILE).unlink(missing_ok=True)
            raise NoAliasError(
                f"baseline @{alias}: no sweep of suite {suite} has this alias in {tracking_uri}; "
                f"ptqlab nightly {suite} gives @{LAST_GOOD} to a sweep that passes"
            )
        (folder / _NO_ALIAS).unlink(missing_ok=True)
        return Path(client.download_artifacts(run, BASELINE_FILE, str(folder)))
    except (MlflowException, OSError) as error:
        if (folder / BASELINE_FILE).is_file():
            logger.warning("baseline @%s: %s is away; the copy of last time serves", alias, tracking_uri)
            return folder / BASELINE_FILE
        if (folder / _NO_ALIAS).is_file():
            logger.warning("baseline @%s: %s is away; last time no sweep had this alias", alias, tracking_uri)
            raise NoAliasError(f"baseline @{alias}: {tracking_uri} is away, and had no such alias last time") from error
        raise ConfigError(f"baseline @{alias}: {tracking_uri}: {' '.join(str(error).split())[:300]}") from error


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


def _params(spec: TrialSpec) -> dict[str, str]:
    """What varies between trials; every trial has every param, so that they line up when runs are compared."""
    settings = spec.settings
    return {
        "model": spec.model,
        "march": spec.march.value,
        "engine": settings.engine.value,
        "calibration_type": settings.calibration_type.value,
        "max_percentile": repr(settings.max_percentile),
        "per_channel": str(settings.per_channel).lower(),
        **{name: str(getattr(settings, name)).lower() for name in SWITCHES},
        "compatibility": settings.compatibility.value,
        "int16": settings.int16.label.removeprefix("int16.") or "none",
        "input_type_rt": settings.input_type_rt.value if settings.input_type_rt else "card",
        "calibration_seed": "first" if settings.calibration_seed is None else str(settings.calibration_seed),
        "calibration_samples": str(spec.calibration_samples),
        "evaluation_samples": str(spec.evaluation_samples),
    }
