"""Records as files of JSON lines: a file per suite, a line per event, and a folder of files per sweep.

Events are ``begin``, ``trial``, ``artefact``, ``same_trials`` (as an earlier sweep), ``end`` and ``alias``; each names
its sweep. Lines are only appended, under a lock, so that several sweeps may write to one folder.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.files.cache import locked
from harness.files.strict_yaml import as_plain
from harness.tracking.tracker import BASELINE_FILE, Closing, Links, Recorded, RunStatus, SweepStart, Tracker
from harness.tracking.trial_run import metrics, params, run_name, swept, trials_digest
from harness.trials.trial import TrialResult, TrialSpec
from harness.trials.version import engine_version, git_commit

logger = logging.getLogger(__name__)

FOLDER = "records"
"""Folder of the records in the working directory."""

Event = Mapping[str, Any]


class JsonLinesTracker(Tracker):
    """See the module; ``uri`` is a folder, or ``file:`` with one."""

    title = "records"

    def __init__(self, uri: str, workdir: Path) -> None:
        super().__init__(uri, workdir)
        parts = urlsplit(uri)
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else Path(uri)
        self._start: SweepStart | None = None
        self._known: set[str] = set()

    @classmethod
    def default_uri(cls, workdir: Path) -> str:
        """``records`` in the working directory."""
        return str(workdir.resolve() / FOLDER)

    def begin(self, start: SweepStart) -> tuple[str, str]:
        """One line, unless the sweep has begun."""
        self._start = start
        events = self._events_of(start.sweep)
        self._known = {str(event["key"]) for event in events if event["event"] == "trial"}
        if not any(event["event"] == "begin" for event in events):
            self._append(
                start.suite.name,
                event="begin",
                sweep=start.sweep,
                definition=as_plain(start.suite),
                started=start.started,
                trials=len(start.specs),
                digest=trials_digest(start.specs),
                engine=engine_version(),
                commit=git_commit(),
            )
        return start.suite.name, start.sweep

    def trial(self, result: TrialResult, *, reused: bool) -> None:
        """One line: params, figures, failure, and the folder with the trial's files."""
        start, spec, failure = self._begun, result.spec, result.failure
        if spec.key in self._known:
            return
        self._append(
            start.suite.name,
            event="trial",
            sweep=start.sweep,
            key=spec.key,
            trial=spec.id,
            name=run_name(spec, start.sweep, start.suite),
            reused=reused,
            status=(RunStatus.FINISHED if result.ok else RunStatus.FAILED).value,
            finished=datetime.fromisoformat(result.finished_at).timestamp(),
            params=params(spec, swept(start.suite)),
            metrics=metrics(result),
            unmet_requests=len(result.unmet),
            failure=None
            if failure is None
            else {"stage": failure.stage, "symptom": failure.symptom.value, "message": failure.text},
            folder=str(start.store.folder(spec.key).resolve()),
        )
        self._known.add(spec.key)

    def reused_whole(self, specs: Sequence[TrialSpec]) -> bool:
        """A line that names the earlier sweep."""
        start, digest = self._begun, trials_digest(specs)
        events = list(self._events(start.suite.name))
        whole = {event["sweep"] for event in events if event["event"] == "end"}
        whole -= {event["sweep"] for event in events if event["event"] == "same_trials"}
        earlier = [
            event["sweep"]
            for event in events
            if event["event"] == "begin" and event["digest"] == digest and event["sweep"] in whole - {start.sweep}
        ]
        if not earlier:
            return False
        self._append(start.suite.name, event="same_trials", sweep=start.sweep, earlier=earlier[-1])
        return True

    def artefact(self, path: Path) -> None:
        """A copy in the sweep's folder, and a line with its name."""
        start = self._begun
        folder = self._folder / start.suite.name / start.sweep
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.name)
        self._append(start.suite.name, event="artefact", sweep=start.sweep, file=path.name)

    def end(self, closing: Closing) -> None:
        """One line."""
        start = self._begun
        self._append(start.suite.name, event="end", sweep=start.sweep, **closing.model_dump(mode="json"))

    def close_killed(self, suite: str, sweep: str) -> None:
        """A line that ends it, where it has begun and not ended."""
        kinds = {event["event"] for event in self._events(suite) if event["sweep"] == sweep}
        if "begin" in kinds and "end" not in kinds:
            self._append(suite, event="end", sweep=sweep, status=RunStatus.KILLED.value, verdicts={"": "KILLED"})

    def links(self, place: Recorded, models: Sequence[str]) -> Links:
        """The file."""
        del models
        return Links(self.title, str(self._file(place.group)))

    def set_alias(self, run: str, alias: str) -> None:
        """One line in the file that has the sweep."""
        for file in sorted(self._folder.glob("*.jsonl")):
            if any(event["event"] == "begin" and event["sweep"] == run for event in self._events(file.stem)):
                self._append(file.stem, event="alias", sweep=run, alias=alias)
                return
        raise FileNotFoundError(f"{self._folder}: has no sweep {run}")

    def baseline(self, suite: str, alias: str, folder: Path) -> Path | None:
        """The baseline of the sweep that the last line with this alias names.

        Raises:
            OSError: the folder cannot be read, or the sweep has no such file any more.
        """
        named = [e["sweep"] for e in self._events(suite) if e["event"] == "alias" and e["alias"] == alias]
        if not named:
            return None
        copy = folder / BASELINE_FILE
        shutil.copyfile(self._folder / suite / named[-1] / BASELINE_FILE, copy)
        return copy

    @property
    def _begun(self) -> SweepStart:
        if self._start is None:
            raise RuntimeError("the record must be begun before it is written")
        return self._start

    def _file(self, suite: str) -> Path:
        return self._folder / f"{suite}.jsonl"

    def _events_of(self, sweep: str) -> list[Event]:
        return [event for event in self._events(self._begun.suite.name) if event["sweep"] == sweep]

    def _events(self, suite: str) -> Iterator[Event]:
        """All events of a suite; a line that a kill or a full disk cut off is none."""
        file = self._file(suite)
        if not file.is_file():
            return
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                event = json.loads(line)
            except ValueError:
                logger.warning("%s: line %d is cut off and counts as none", file, number)
                continue
            if isinstance(event, dict) and {"event", "sweep"} <= event.keys():
                yield event

    def _append(self, suite: str, **event: Any) -> None:
        file = self._file(suite)
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(file), file.open("a+b") as stream:
            size = stream.seek(0, 2)
            if size:
                stream.seek(size - 1)
                cut = stream.read(1) != b"\n"
                stream.write(b"\n" if cut else b"")
            stream.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")
