"""Sweeps that are not recorded yet, kept until they are: ``<workdir>/unsynced/<sweep>/``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from engine.errors import ConfigError
from harness.files.cache import load_json, save_json
from harness.files.strict_yaml import StrictModel
from harness.suites.suite import Suite
from harness.tracking.tracker import Closing, SweepStart, Tracker
from harness.tracking.trackers import MLFLOW, chosen_tracker, open_tracker
from harness.trials.trial import TrialSpec, TrialStore

FOLDER = "unsynced"
RECORD_FILE = "record.json"


class SharedSeconds(StrictModel):
    """Wall time of the stages that the trials of one model and march share."""

    model: str
    march: str
    seconds: dict[str, float]


class PendingRecord(StrictModel):
    """All that a record is made of, but for the trials' results, which the store has.

    Attributes:
        sweep: id.
        suite: as it was run.
        trials: those that have a result.
        reused: keys of those that an earlier sweep had left.
        shared: times of shared stages.
        started_at: local time, ISO 8601.
        tracker: name of the tracker that it belongs to.
        tracking_uri: of its store.
        closing: its end.
    """

    sweep: str
    suite: Suite
    trials: tuple[TrialSpec, ...]
    reused: frozenset[str]
    shared: tuple[SharedSeconds, ...]
    started_at: str
    tracker: str = MLFLOW
    tracking_uri: str
    closing: Closing


def record_folder(workdir: Path, sweep: str) -> Path:
    """Where the record of ``sweep`` is kept, if it is."""
    return workdir / FOLDER / sweep


def keep(record: PendingRecord, artifacts: Sequence[Path], workdir: Path) -> Path:
    """Keep ``record`` with copies of its files; the folder."""
    folder = record_folder(workdir, record.sweep)
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        shutil.copyfile(artifact, folder / artifact.name)
    save_json(record, folder / RECORD_FILE)  # last: what has it is whole
    return folder


def pending(workdir: Path) -> list[Path]:
    """Folders of the sweeps that are kept, oldest first."""
    found = (workdir / FOLDER).glob(f"*/{RECORD_FILE}")
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime)]


def replay(folder: Path, workdir: Path, tracking_uri: str | None = None) -> PendingRecord:
    """Write the record kept in ``folder`` to its store, or to ``tracking_uri``, and forget it then.

    What the store has already is not written again.

    Raises:
        ConfigError: the folder cannot be read, or the store refuses or is away; the folder is kept.
    """
    path = folder / RECORD_FILE
    try:
        record = load_json(PendingRecord, path)
        started = datetime.fromisoformat(record.started_at).timestamp()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from error
    tracker = open_tracker(chosen_tracker(record.tracker), tracking_uri or record.tracking_uri, workdir)
    artifacts = [file for file in sorted(folder.iterdir()) if file.name != RECORD_FILE]
    try:
        _write(record, started, artifacts, TrialStore(workdir / "trials"), tracker)
    except tracker.failures() as error:
        raise ConfigError(
            f"{tracker.uri}: {' '.join(str(error).split())[:400]}; the record stays in {folder}"
        ) from error
    shutil.rmtree(folder)
    return record


def _write(
    record: PendingRecord, started: float, artifacts: Sequence[Path], store: TrialStore, tracker: Tracker
) -> None:
    """Write ``record``; ``started``: seconds since 1970."""
    tracker.begin(SweepStart(record.suite, record.sweep, store, started, record.trials))
    whole = len(record.reused) == len(record.trials) and not record.closing.has_built
    known = whole and tracker.reused_whole(record.trials)
    for spec in () if known else record.trials:
        result = store.get(spec)
        if result is not None:
            tracker.trial(result, reused=spec.key in record.reused)
    for artefact in artifacts:
        tracker.artefact(artefact)
    tracker.end(record.closing)
