"""The MLflow record of a sweep: experiment = suite, parent run = sweep, child run = trial.

Params hold what varies, ``lab.*`` tags identity, metrics the figures under the names of
:meth:`harness.trials.TrialResult.metrics`. Only the coordinator writes, from one thread of its own, so that neither
MLflow's start nor a slow server holds up the trials. Should MLflow refuse or be away, the sweep goes on without it: all
results are files in the working directory too.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from harness.pipeline import Preparation, Prepared
from harness.strict_yaml import as_plain
from harness.suites import Suite
from harness.trials import NODES_FILE, RESULT_FILE, TrialResult, TrialSpec, TrialStore
from harness.version import engine_version, git_commit

if TYPE_CHECKING:
    from mlflow import MlflowClient

logger = logging.getLogger(__name__)

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""Environment that MLflow is imported with: it calls nobody, and a server that is away is noticed soon."""

_TAG_LENGTH = 4000
"""Longest value of a tag that every MLflow store takes."""


class RunStatus(StrEnum):
    """How a run ended, in MLflow's words."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


def default_tracking_uri(workdir: Path) -> str:
    """A SQLite store in the working directory."""
    return f"sqlite:///{workdir.resolve() / DATABASE}"


class Recorder:
    """Writes one sweep to MLflow.

    Args:
        suite: what is swept.
        workdir: where artifacts go if the store is a file or database of this machine.
        store: finished trials; their files become artifacts.
        tracking_uri: any that MLflow knows; None for :func:`default_tracking_uri`.
    """

    def __init__(self, suite: Suite, workdir: Path, store: TrialStore, tracking_uri: str | None = None) -> None:
        self.tracking_uri = tracking_uri or default_tracking_uri(workdir)
        self._suite, self._workdir, self._store = suite, workdir, store
        self._writer = ThreadPoolExecutor(1, "mlflow")
        self._writes: list[Future[None]] = []
        self._client: MlflowClient | None = None
        self._experiment = ""
        self._parent = ""
        self._children: dict[str, str] = {}

    @property
    def parent(self) -> str:
        """Id of the sweep's run; empty as long as there is none."""
        return self._parent

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """Open experiment and parent run."""
        self._later(self._open, tuple(specs), _milliseconds(time.time()))

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """Times of shared stages belong to the sweep."""
        spec = preparation.specs[0]
        seconds = {f"seconds.{stage}.{spec.model}.{spec.march}": value for stage, value in prepared.seconds.items()}
        self._later(self._log, None, seconds)

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """One child run."""
        self._later(self._child, result, reused)

    def close(
        self, status: RunStatus, summary: Mapping[str, float], verdicts: Mapping[str, str], artifacts: Sequence[Path]
    ) -> str | None:
        """Finish the sweep's run, once everything before is written.

        Args:
            status: of the sweep.
            summary: metrics of the sweep.
            verdicts: of the gate, by trial key; under ``""`` that of the sweep.
            artifacts: files of the sweep.

        Returns:
            What went wrong with the record; None if it is complete.
        """
        self._later(self._close, status, dict(summary), dict(verdicts), tuple(artifacts))
        self._writer.shutdown(wait=True)
        error = next((error for write in self._writes if (error := write.exception())), None)
        return None if error is None else f"{self.tracking_uri}: {' '.join(str(error).split())[:400]}"

    def _later(self, write: Callable[..., None], *arguments: Any) -> None:
        """Write in the recorder's thread, after all earlier writes; not at all once one of them failed."""

        def guarded() -> None:
            if not any(earlier.done() and earlier.exception() for earlier in self._writes):
                write(*arguments)

        self._writes.append(self._writer.submit(guarded))

    def _open(self, specs: Sequence[TrialSpec], started: int) -> None:
        self._client = _client(self.tracking_uri)
        self._experiment = self._open_experiment(self._client)
        tags = {
            "mlflow.runName": f"{self._suite.name} v{self._suite.version} {time.strftime('%Y-%m-%d %H:%M:%S')}",
            "mlflow.note.content": self._suite.description,
            "lab.trials": str(len(specs)),
            **self._common_tags(),
        }
        self._parent = self._start(tags, started)
        self._client.log_text(self._parent, yaml.safe_dump(as_plain(self._suite), sort_keys=False), "suite.yaml")

    def _open_experiment(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(self._suite.name)
        if found is not None:
            return str(found.experiment_id)
        remote = self.tracking_uri.startswith(("http:", "https:", "databricks"))
        location = None if remote else (self._workdir.resolve() / ARTIFACTS / self._suite.name).as_uri()
        return str(client.create_experiment(self._suite.name, artifact_location=location))

    def _child(self, result: TrialResult, reused: bool) -> None:
        spec, failure = result.spec, result.failure
        tags = {
            "mlflow.parentRunId": self._parent,
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
        finished = datetime.fromisoformat(result.finished_at).timestamp()
        started = finished - sum(result.seconds.values())
        run = self._children[spec.key] = self._start(tags, _milliseconds(started))
        seconds = {f"seconds.{stage}": value for stage, value in result.seconds.items()}
        self._log(run, result.metrics() | seconds, _params(spec))
        for name in (RESULT_FILE, NODES_FILE):
            file = self._store.folder(spec.key) / name
            if file.is_file():
                self._connected.log_artifact(run, str(file))
        status = RunStatus.FINISHED if result.ok else RunStatus.FAILED
        self._connected.set_terminated(run, status.value, _milliseconds(finished))

    def _close(
        self, status: RunStatus, summary: dict[str, float], verdicts: dict[str, str], artifacts: Sequence[Path]
    ) -> None:
        client = self._connected
        for key, verdict in verdicts.items():
            run = self._children.get(key) if key else self._parent
            if run is not None:
                client.set_tag(run, "lab.verdict", verdict)
        self._log(None, summary)
        for artifact in artifacts:
            client.log_artifact(self._parent, str(artifact))
        client.set_terminated(self._parent, status.value)

    def _start(self, tags: Mapping[str, str], started: int) -> str:
        run = self._connected.create_run(
            self._experiment, start_time=started, tags={name: value[:_TAG_LENGTH] for name, value in tags.items()}
        )
        return str(run.info.run_id)

    def _log(self, run: str | None, metrics: Mapping[str, float], params: Mapping[str, str] | None = None) -> None:
        """Log to ``run``; None: the sweep's."""
        from mlflow.entities import Metric, Param

        now = _milliseconds(time.time())
        self._connected.log_batch(
            self._parent if run is None else run,
            metrics=[Metric(name, value, now, 0) for name, value in metrics.items()],
            params=[Param(name, value) for name, value in (params or {}).items()],
        )

    def _common_tags(self) -> dict[str, str]:
        tags = {
            "mlflow.source.name": "ptqlab",
            "lab.suite": self._suite.name,
            "lab.suite_version": str(self._suite.version),
            "lab.engine_version": engine_version(),
        }
        commit = git_commit()
        return tags if commit is None else tags | {"lab.git_commit": commit, "mlflow.source.git.commit": commit}

    @property
    def _connected(self) -> MlflowClient:
        if self._client is None:
            raise RuntimeError("the recorder writes before it was opened")
        return self._client


def _milliseconds(seconds: float) -> int:
    """A point in time as MLflow counts it."""
    return int(seconds * 1000)


def _client(tracking_uri: str) -> MlflowClient:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # takes seconds: only where there is something to record

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri)


def _params(spec: TrialSpec) -> dict[str, str]:
    """What varies between trials; every trial has every param, so that they line up when runs are compared."""
    settings = spec.settings
    return {
        "model": spec.model,
        "march": spec.march.value,
        "calibration_type": settings.calibration_type.value,
        "max_percentile": repr(settings.max_percentile),
        "per_channel": str(settings.per_channel).lower(),
        "asymmetric": str(settings.asymmetric).lower(),
        "bias_correction": str(settings.bias_correction).lower(),
        "int16": settings.int16.label.removeprefix("int16.") or "none",
        "input_type_rt": settings.input_type_rt.value if settings.input_type_rt else "card",
        "calibration_seed": "first" if settings.calibration_seed is None else str(settings.calibration_seed),
        "calibration_samples": str(spec.calibration_samples),
        "evaluation_samples": str(spec.evaluation_samples),
    }
