"""Sweeps whose record is open, and those that were killed with it open: ``<workdir>/unfinished/<sweep>.json``.

A sweep holds the lock of its file while it runs. The system releases the lock however the process ends, so that a file
that is not locked belongs to a sweep that was killed; the next sweep closes its runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.errors import ConfigError
from engine.sealed import unsealed
from harness.files.cache import save_json, take_lock
from harness.files.strict_yaml import StrictModel
from harness.tracking.sync import record_folder
from harness.tracking.trackers import MLFLOW, chosen_tracker, open_tracker

FOLDER = "unfinished"


class OpenRecord(StrictModel):
    """Where a sweep writes its record.

    Attributes:
        sweep: id.
        suite: name.
        tracker: its tracker.
        tracking_uri: of the tracker's store.
    """

    sweep: str
    suite: str
    tracker: str = MLFLOW
    tracking_uri: str


@dataclass(frozen=True)
class Mark:
    """Says, as long as this process lives, that a sweep runs; see :func:`mark_open`."""

    path: Path
    lock: IO[bytes]

    def release(self, *, complete: bool) -> None:
        """The sweep has ended; ``complete``: and nothing is left to do about its record."""
        if complete:
            self.path.unlink(missing_ok=True)
        self.lock.close()


def mark_open(record: OpenRecord, workdir: Path) -> Mark:
    """Leave the file of a sweep that begins."""
    path = workdir / FOLDER / f"{record.sweep}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")  # locked before it has its name, so that it is not taken for a dead sweep's
    save_json(record, fresh)
    lock = fresh.open("rb")
    take_lock(lock, path)
    os.replace(fresh, path)
    return Mark(path, lock)


def forget(sweep: str, workdir: Path) -> None:
    """Note that the record of ``sweep`` was written, possibly to another store, so that nothing is left to close."""
    (workdir / FOLDER / f"{sweep}.json").unlink(missing_ok=True)


def close_unfinished(workdir: Path, tracking_uri: str | None = None) -> list[OpenRecord]:
    """Close the runs of sweeps that were killed: of those that write to ``tracking_uri``, or of all.

    A sweep that ended while the store was away is left to :func:`harness.tracking.sync.replay`.

    Raises:
        ConfigError: the store is away or refuses, or its tracker is not here; the file stays.
    """
    closed = []
    for path in sorted((workdir / FOLDER).glob("*.json")):
        with _taken(path) as record:
            if record is None or record_folder(workdir, record.sweep).exists():
                continue
            if tracking_uri in (None, record.tracking_uri):
                _close(record, workdir)
                path.unlink(missing_ok=True)
                closed.append(record)
    return closed


def _close(record: OpenRecord, workdir: Path) -> None:
    tracker = open_tracker(chosen_tracker(record.tracker), record.tracking_uri, workdir)
    try:
        tracker.close_killed(record.suite, record.sweep)
    except tracker.failures() as error:
        reason = " ".join(str(error).split())[:400]
        raise ConfigError(f"killed sweeps stay open in {tracker.title}: {reason}") from error


@contextmanager
def _taken(path: Path) -> Iterator[OpenRecord | None]:
    """The record of a dead sweep, locked inside; None if the sweep is alive, or another process has the lock."""
    with ExitStack() as stack:
        record = None
        with suppress(FileNotFoundError, BlockingIOError, ValueError):
            lock = stack.enter_context(path.open("rb"))
            take_lock(lock, path, wait=False)
            if path.exists():
                record = OpenRecord.model_validate_json(unsealed(lock.read()))
        yield record
