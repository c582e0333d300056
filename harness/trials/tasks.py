"""What coordinator and workers share: tasks, where to work, and which stage a task is in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import PtqlabError
from engine.fingerprint import fingerprint_of
from harness.cards.folders import CardFolders
from harness.files.cache import Cache, content_key
from harness.files.exchange import Exchange
from harness.files.strict_yaml import StrictModel
from harness.suites.settings import Settings
from harness.trials.trial import Failure, Symptom, TrialSpec, TrialStore, is_environmental

if TYPE_CHECKING:
    from engine.convert.runner import Stage

SHARED_SETTINGS = ("input_type_rt", "calibration_seed", "order_independent_kl", "cross_layer_equalization")
"""Settings in which the trials of a preparation must not differ."""


@dataclass(frozen=True)
class Bench:
    """Where a worker works.

    Attributes:
        workdir: holds ``cache`` and ``trials``.
        threads: CPU threads that a worker may use.
        fingerprints: of stages by their module, as far as they are known; others are computed.
        cache_name: folder of the results of stages.
        store_url: of the :class:`Exchange` through which machines without a common file system share what is in
            ``cache`` and ``trials``; empty where all see the working directory.
        worker: name of the machine or process that works for a sweep of another one; empty on the sweep's own.
        cards: where the sweep found its cards; None for where this process finds them.
    """

    workdir: Path
    threads: int = 1
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    cache_name: str = "cache"
    store_url: str = ""
    worker: str = ""
    cards: CardFolders | None = None

    def fingerprint(self, stage: Stage) -> str:
        """Sources and tools of ``stage``."""
        return self.fingerprints.get(stage.module) or fingerprint_of(stage.module).digest

    @property
    def cache(self) -> Cache:
        """Results of stages."""
        return Cache(self.workdir / self.cache_name, self.exchange)

    @property
    def store(self) -> TrialStore:
        """Finished trials."""
        return TrialStore(self.workdir / "trials", self.exchange)

    @property
    def exchange(self) -> Exchange | None:
        """What machines share; None where all see the working directory."""
        return Exchange(self.store_url) if self.store_url else None

    def journal(self, key: str) -> Path:
        """File that names the stage that task ``key`` is in; it outlives the worker should that die."""
        return self.workdir / "running" / key


class Preparation(StrictModel):
    """What all trials of one model, march and data share.

    Attributes:
        specs: the trials; they differ in their settings only, and not in :data:`SHARED_SETTINGS`.
    """

    specs: tuple[TrialSpec, ...]

    @property
    def key(self) -> str:
        """Names the task."""
        return content_key("preparation", self)

    @property
    def settings(self) -> list[Settings]:
        """The settings of all trials."""
        return [spec.settings for spec in self.specs]


class Prepared(StrictModel):
    """Result of :func:`harness.execution.pipeline.prepare`.

    Attributes:
        statistics: key of the statistics that serve all the settings; None if :attr:`failure` is given.
        failure: why nothing could be prepared.
        seconds: wall time by stage, without stages that were there already.
    """

    statistics: str | None = None
    failure: Failure | None = None
    seconds: Mapping[str, float] = {}


@dataclass
class StageClock:
    """Times stages and writes the name of the current one to a file, where it can be found if the process dies.

    Attributes:
        journal: the file.
        seconds: wall time by stage.
        current: name of the stage that runs, or ran last.
    """

    journal: Path
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = "start"

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Stage ``name`` runs inside."""
        self.current = name
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        self.journal.write_text(name, encoding="utf-8")
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def failure(self, error: PtqlabError, worker: str = "") -> Failure:
        """``error`` as the failure of the current stage, met by ``worker``."""
        symptom = Symptom.ENVIRONMENT if is_environmental(error) else Symptom.REFUSED
        return Failure(stage=self.current, symptom=symptom, message=" ".join(str(error).split()), worker=worker)

    def close(self) -> None:
        """Remove the file: the task has reported its outcome itself."""
        self.journal.unlink(missing_ok=True)
