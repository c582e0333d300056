"""What may be removed from a working directory: results that were not used lately, and leftovers of killed runs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import OutputError
from harness.files.cache import load_json
from harness.report.results import SWEEP_FILE, SweepSummary
from harness.sweeps.earlier import FOLDER as EARLIER
from harness.tracking.mlflow_store import DATABASE
from harness.tracking.unfinished import FOLDER as UNFINISHED

CACHE = "cache"
_REPORTS = "earlier reports"
_DAY = 86_400.0
_LEFTOVER_DAYS = 1.0
"""Temporary files of a running process are younger."""
_SCRATCH = (".fresh-*", ".recheck-*", f".{DATABASE}.*", ".*.lock")
"""Folders that a run makes for itself and removes at its end, and its locks, in the working directory itself."""
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")
"""Name under which a file is written before it gets its own (:func:`engine.ir.write_atomically`)."""


@dataclass(frozen=True)
class Removable:
    """A file or folder that may be removed.

    Attributes:
        path: of it.
        kind: what it is: ``cache: STAGE``, ``earlier reports``, ``trials`` or ``leftovers``.
        bytes: that it takes.
        age: days since it was last used.
    """

    path: Path
    kind: str
    bytes: int
    age: float


def removable(workdir: Path, days: float, *, trials: bool = False, now: float | None = None) -> list[Removable]:
    """The files and folders that may be removed.

    Args:
        workdir: of sweeps.
        days: results of stages, reports of earlier sweeps, and trials that were used since then stay.
        trials: whether trials to which no report refers are removed too.
        now: seconds since the epoch; None for the clock.
    """
    now = time.time() if now is None else now
    earlier = [
        each for path in sorted((workdir / EARLIER).glob("[!.]*")) for each in _if_old(path, _REPORTS, now, days)
    ]
    found = [*_of_cache(workdir / CACHE, now, days), *earlier, *_leftovers(workdir, now)]
    if trials:
        found += _of_trials(workdir, now, days, {each.path for each in earlier})
    return found


def remove(found: list[Removable]) -> None:
    """Remove them.

    Raises:
        OutputError: one cannot be removed.
    """
    for each in found:
        try:
            if each.path.is_dir():
                shutil.rmtree(each.path)
            else:
                each.path.unlink(missing_ok=True)
        except FileNotFoundError:  # somebody else was faster
            continue
        except OSError as error:
            raise OutputError(f"{each.path}: cannot be removed: {error.strerror}") from error


def _of_cache(cache: Path, now: float, days: float) -> Iterator[Removable]:
    for path in sorted(cache.glob("*/[!.]*")):
        yield from _if_old(path, f"{CACHE}: {path.parent.name}", now, days)


def _leftovers(workdir: Path, now: float) -> Iterator[Removable]:
    """Folders of runs that were killed, files that were not written to their end, and locks that guard nothing."""
    for pattern in _SCRATCH:
        for path in sorted(workdir.glob(pattern)):
            yield from _if_old(path, "leftovers", now, _LEFTOVER_DAYS)
    for pattern in ("running/*", "hb_mapper/*", f"{UNFINISHED}/*.new"):
        for path in sorted(workdir.glob(pattern)):
            yield from _if_old(path, "leftovers", now, _LEFTOVER_DAYS)
    hidden = {path for name in (CACHE, "trials", "sweeps", EARLIER) for path in (workdir / name).rglob(".*")}
    hidden |= {path for path in workdir.rglob(".*") if _TEMPORARY.fullmatch(path.name)}
    for path in sorted(hidden):
        yield from _if_old(path, "leftovers", now, _LEFTOVER_DAYS)


def _of_trials(workdir: Path, now: float, days: float, going: set[Path]) -> Iterator[Removable]:
    """Files of trials that no report refers to; the reports ``going`` are removed as well."""
    reports = [path for folder in ("sweeps", EARLIER) for path in (workdir / folder).glob(f"*/{SWEEP_FILE}")]
    kept = {key for path in reports if path.parent not in going for key in _keys(path)}
    for path in sorted((workdir / "trials").glob("[!.]*")):
        if path.name not in kept:
            yield from _if_old(path, "trials", now, days)


def _keys(path: Path) -> set[str]:
    """Keys of the trials of a sweep."""
    try:
        return {spec.key for spec in load_json(SweepSummary, path).trials}
    except (OSError, ValueError):
        return set()


def _if_old(path: Path, kind: str, now: float, days: float) -> Iterator[Removable]:
    with suppress(FileNotFoundError):
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        last = max((file.stat().st_mtime for file in [path, *files]), default=now)
        age = (now - last) / _DAY
        if age >= days:
            yield Removable(path, kind, sum(file.stat().st_size for file in files), age)
