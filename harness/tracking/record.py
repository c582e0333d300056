"""The record of a sweep while it runs, and again later where the store was away.

Params hold what varies, metrics the figures (:mod:`harness.tracking.trial_run`). Only the coordinator writes, from one
thread of its own, so that neither the start of a tracker nor a slow server holds up the trials. If the store refuses
or cannot be reached, the sweep goes on without it, and ``ptqlab sync`` later replays what is kept under ``unsynced`` in
the working directory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.suites.suite import Suite
from harness.tracking.tracker import Closing, Recorded, SweepStart
from harness.tracking.trackers import chosen_tracker, open_tracker
from harness.tracking.unfinished import Mark, OpenRecord, close_unfinished, mark_open
from harness.trials.tasks import Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec, TrialStore

if TYPE_CHECKING:
    from harness.execution.coordinator import AtWork


def cause_of(error: BaseException) -> str:
    """One line, at most 120 characters: what stands behind an exception that others wrap.

    That is the innermost error of the operating system (a refused connection, a full disk), else the innermost declared
    cause; of its text the first line.
    """
    chain, declared = [error], error
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and inner not in chain:
        declared = inner if declared is chain[-1] and chain[-1].__cause__ is not None else declared
        chain.append(inner)
    found = next((each for each in reversed(chain) if isinstance(each, OSError)), declared)
    words = next((" ".join(line.split()) for line in str(found).splitlines() if line.strip()), "")
    text = f"{type(found).__name__}: {words}" if words else type(found).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST = 120
"""Characters of a cause on the terminal."""


class Recorder:
    """Writes one sweep to the suite's tracker while it runs.

    Args:
        suite: what is swept.
        sweep: id of the sweep.
        workdir: where files go if the store is one of this machine.
        store: finished trials; their files belong to the record.
        tracking_uri: of the tracker's store; None for that of the working directory.

    Raises:
        ConfigError: there is no such tracker, or a package lacks that it needs.
    """

    def __init__(
        self, suite: Suite, sweep: str, workdir: Path, store: TrialStore, tracking_uri: str | None = None
    ) -> None:
        self._name = chosen_tracker(suite.tracker)
        self._tracker = open_tracker(self._name, tracking_uri, workdir)
        self._suite, self._sweep, self._workdir, self._store = suite, sweep, workdir, store
        self._writer = ThreadPoolExecutor(1, "recorder")
        self._writes: list[Future[None]] = []
        self._place = Recorded(tracker=self._name, uri=self._tracker.uri)
        self._mark: Mark | None = None
        self._specs: tuple[TrialSpec, ...] = ()
        self._reused: list[TrialResult] = []
        self._finished = self._written = 0

    @property
    def place(self) -> Recorded:
        """Where the sweep is recorded; without group and run where the store could not be reached."""
        wait(self._writes[:1])
        return self._place

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """Open the record, and close those of sweeps that were killed."""
        record = OpenRecord(
            sweep=self._sweep, suite=self._suite.name, tracker=self._name, tracking_uri=self._tracker.uri
        )
        self._mark = mark_open(record, self._workdir)
        self._specs = tuple(specs)
        self._later(self._open, time.time())
        self._later(close_unfinished, self._workdir, self._tracker.uri)

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """Times of shared stages are in the sweep's summary, which is a file of its record."""

    def at_work(self, trials: Sequence[AtWork]) -> None:
        """Results alone are recorded."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """One trial; reused ones wait until one is not: where all are, an earlier sweep may have them."""
        if reused and len(self._reused) == self._finished:
            self._reused.append(result)
        else:
            self._write_reused()
            self._later(lambda: self._tracker.trial(result, reused=reused))
        self._finished += 1

    def _write_reused(self) -> None:
        for result in self._reused[self._written :]:
            self._later(lambda result=result: self._tracker.trial(result, reused=True))
        self._written = len(self._reused)

    def _write_all_reused(self, closing: Closing) -> None:
        """In the recorder's thread: every trial was reused."""
        if closing.has_built or not self._tracker.reused_whole(self._specs):
            for result in self._reused:
                self._tracker.trial(result, reused=True)

    def close(self, closing: Closing, artifacts: Sequence[Path] = ()) -> str | None:
        """Finish the sweep's record, once everything before is written.

        Returns:
            What went wrong with the record; None if it is complete.
        """
        if self._reused and len(self._reused) == len(self._specs):
            self._later(self._write_all_reused, closing)
        else:
            self._write_reused()
        for artefact in artifacts:
            self._later(self._tracker.artefact, artefact)
        self._later(self._tracker.end, closing)
        self._writer.shutdown(wait=True)
        error = next((error for write in self._writes if (error := write.exception())), None)
        if self._mark is not None:
            self._mark.release(complete=error is None)
        return None if error is None else f"{self._tracker.uri}: {cause_of(error)}"

    def _later(self, write: Callable[..., object], *arguments: Any) -> None:
        """Write in the recorder's thread, after all earlier writes; skip it once one of them has failed."""

        def guarded() -> None:
            if not any(earlier.done() and earlier.exception() for earlier in self._writes):
                write(*arguments)

        self._writes.append(self._writer.submit(guarded))

    def _open(self, started: float) -> None:
        start = SweepStart(self._suite, self._sweep, self._store, started, self._specs)
        group, run = self._tracker.begin(start)
        self._place = self._place.model_copy(update={"group": group, "run": run})
