"""What is computed in a child process, and what comes back: JSON on both ways."""

from __future__ import annotations

from collections.abc import Mapping

from harness.execution.luggage import Luggage
from harness.files.strict_yaml import StrictModel
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import Failure, Symptom, TrialResult, TrialSpec


class Task(StrictModel):
    """A trial (``spec`` with ``statistics``) or a preparation, and where and how to compute it.

    Attributes:
        key: of the task; names its journal.
        workdir: of the :class:`harness.trials.tasks.Bench`.
        stages: module that offers ``prepare`` and ``run_trial`` as :mod:`harness.execution.pipeline` does.
        threads: CPU threads that it may use.
        fingerprints, cache_name, store_url: of the bench.
        time_limit: seconds, None for no limit.
        worker: name of the worker that runs it, where that is no child of the sweep's process.
        luggage: what the worker may lack; None where it is a child of the sweep's process.
    """

    key: str
    workdir: str
    stages: str
    threads: int
    fingerprints: Mapping[str, str] = {}
    cache_name: str = "cache"
    store_url: str = ""
    time_limit: float | None = None
    spec: TrialSpec | None = None
    statistics: str = ""
    preparation: Preparation | None = None
    worker: str = ""
    luggage: Luggage | None = None

    @property
    def code(self) -> str:
        """Key of the user's modules that travel with it; empty without any."""
        return self.luggage.code if self.luggage else ""


class Reply(StrictModel):
    """What became of a task; one of the four is given.

    Attributes:
        result: of a trial.
        prepared: of a preparation.
        error: unexpected exception, in one line.
        symptom: of ``error``.
        failure: the child died or was killed.
    """

    result: TrialResult | None = None
    prepared: Prepared | None = None
    error: str | None = None
    symptom: Symptom = Symptom.DEFECT
    failure: Failure | None = None
