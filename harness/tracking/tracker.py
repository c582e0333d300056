"""What a tracker is: the place where sweeps, their trials and their files are recorded, and names for good sweeps.

MLflow is the first (:mod:`harness.tracking.mlflow_store`), files of JSON lines the second
(:mod:`harness.tracking.jsonl_store`); users register others (:data:`harness.extensions.TRACKERS`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from harness.files.strict_yaml import StrictModel
from harness.suites.suite import Suite
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

BASELINE_FILE = "baseline.json"
"""File of a sweep that is what later ones are compared with."""


class RunStatus(StrEnum):
    """How a sweep or trial ended."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


class RecordedShip(StrictModel):
    """What the user's toolchain made of a trial.

    Attributes:
        text: whether what was measured is what was built, in words.
        toolchain: version; empty without one.
        fresh: whether it was asked in this sweep, so that no earlier record can have it.
    """

    text: str
    toolchain: str = ""
    fresh: bool = True


class Closing(StrictModel):
    """How a sweep ended.

    Attributes:
        status: of the sweep.
        metrics: of the sweep: what is plotted over nights.
        tags: of the sweep: what is to be read only.
        verdicts: of the gate, by trial key; under ``""`` that of the sweep.
        twins: by trial key, id of the trial that has the same quantised model.
        ships: by trial key, what the user's toolchain built of it.
        at: seconds since 1970.
    """

    status: RunStatus
    metrics: Mapping[str, float] = Field(default_factory=dict)
    tags: Mapping[str, str] = Field(default_factory=dict)
    verdicts: Mapping[str, str] = Field(default_factory=dict)
    twins: Mapping[str, str] = Field(default_factory=dict)
    ships: Mapping[str, RecordedShip] = Field(default_factory=dict)
    at: float = Field(default_factory=time.time)

    @property
    def has_built(self) -> bool:
        """Whether the sweep has something that records of earlier sweeps of the same trials have not."""
        return any(ship.fresh for ship in self.ships.values())


class Recorded(StrictModel):
    """Where a sweep is recorded.

    Attributes:
        tracker: its name.
        uri: of the store.
        group: that the sweeps of the suite have in the store.
        run: the sweep in the store.
    """

    tracker: str
    uri: str
    group: str = ""
    run: str = ""


@dataclass(frozen=True)
class SweepStart:
    """A sweep that begins.

    Attributes:
        suite: what is swept.
        sweep: id of the sweep, unique for ever.
        store: finished trials; their files belong to the record.
        started: seconds since 1970.
        specs: of all trials that there are to be.
    """

    suite: Suite
    sweep: str
    store: TrialStore
    started: float
    specs: Sequence[TrialSpec]


@dataclass(frozen=True)
class View:
    """Trials of a sweep, as pages of the store show them.

    Attributes:
        name: whose trials.
        links: word and address of each way to look at them.
    """

    name: str
    links: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Links:
    """How people look at a record.

    Attributes:
        title: what the store is called.
        how: an address, a command that serves the pages, or a file.
        server: address of the pages; empty where there are none.
        views: that pages show.
    """

    title: str
    how: str
    server: str = ""
    views: Sequence[View] = ()

    @property
    def is_address(self) -> bool:
        """Whether :attr:`how` can be opened as it is."""
        return self.how.startswith(("http:", "https:"))


class Tracker(ABC):
    """The record of one sweep in one store. Writing is idempotent: what is there already is not written again.

    One thread calls it. Whatever fails to reach the store raises one of :meth:`failures`; the sweep then goes on
    without its record, which ``ptqlab sync`` writes later.

    Args:
        uri: of the store.
        workdir: where files go if the store is one of this machine.
    """

    title: ClassVar[str]

    def __init__(self, uri: str, workdir: Path) -> None:
        self.uri, self.workdir = uri, workdir

    @classmethod
    @abstractmethod
    def default_uri(cls, workdir: Path) -> str:
        """The store of a working directory."""

    @classmethod
    def failures(cls) -> tuple[type[Exception], ...]:
        """What is raised where the store is away or refuses."""
        return (OSError,)

    @abstractmethod
    def begin(self, start: SweepStart) -> tuple[str, str]:
        """Open the record of a sweep, new or begun; its group and run, as :class:`Recorded` has them."""

    @abstractmethod
    def trial(self, result: TrialResult, *, reused: bool) -> None:
        """Record a trial of the sweep that was begun; nothing where it is recorded whole."""

    def reused_whole(self, specs: Sequence[TrialSpec]) -> bool:
        """Refer to an earlier sweep that recorded the same trials, all of which were reused; whether there is one."""
        del specs
        return False

    @abstractmethod
    def artefact(self, path: Path) -> None:
        """Record a file of the sweep."""

    @abstractmethod
    def end(self, closing: Closing) -> None:
        """Record how the sweep ended; it is whole then."""

    @abstractmethod
    def close_killed(self, suite: str, sweep: str) -> None:
        """Mark what a killed sweep left open."""

    @abstractmethod
    def links(self, place: Recorded, models: Sequence[str]) -> Links:
        """How people look at a sweep's record; nothing is asked of the store.

        Args:
            place: of the sweep.
            models: of its trials, ``""`` for all together.
        """

    @abstractmethod
    def set_alias(self, run: str, alias: str) -> None:
        """Let ``alias`` of the suite of the sweep ``run`` mean that sweep."""

    @abstractmethod
    def baseline(self, suite: str, alias: str, folder: Path) -> Path | None:
        """A copy in ``folder`` of the :data:`BASELINE_FILE` of the sweep that has ``alias``; None where none has."""
