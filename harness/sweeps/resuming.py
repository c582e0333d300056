"""Unfinished sweeps: ``running.json`` in the folder of their report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.files.cache import load_json, save_json
from harness.files.strict_yaml import StrictModel
from harness.report.results import SWEEP_FILE, SweepSummary, sweep_folder
from harness.trials.trial import TrialSpec, TrialStore

FILE = "running.json"


class Running(StrictModel):
    """A sweep that has begun.

    Attributes:
        suite: name.
        asked: what the command was given for the suite: a name or a file.
        started_at: local time, ISO 8601.
        trials: all of them.
    """

    suite: str
    asked: str
    started_at: str
    trials: tuple[TrialSpec, ...]


@dataclass(frozen=True)
class Unfinished:
    """An unfinished sweep.

    Attributes:
        suite: name.
        asked: name or file to run again.
        started_at: local time, ISO 8601.
        done: trials that have figures.
        failed: trials that failed.
        total: trials of the sweep.
        why: it is not finished.
    """

    suite: str
    asked: str
    started_at: str
    done: int
    failed: int
    total: int
    why: str


def begin(running: Running, workdir: Path) -> None:
    """Note that a sweep has begun."""
    save_json(running, sweep_folder(workdir, running.suite) / FILE)


def end(suite: str, workdir: Path) -> None:
    """Note that the sweep of ``suite`` has finished."""
    (sweep_folder(workdir, suite) / FILE).unlink(missing_ok=True)


def unfinished(workdir: Path) -> list[Unfinished]:
    """Sweeps that were interrupted, that run now, or that a budget stopped, by suite."""
    found = []
    for folder in sorted((workdir / "sweeps").glob("[!.]*")):
        running = _read(folder / FILE)
        if running is not None:
            found.append(_as_unfinished(running, workdir, "interrupted, or still running"))
            continue
        try:
            summary = load_json(SweepSummary, folder / SWEEP_FILE)
        except (OSError, ValueError):
            continue
        if summary.left:
            name = summary.suite.name
            stopped = Running(
                suite=name, asked=summary.asked or name, started_at=summary.started_at, trials=summary.trials
            )
            found.append(_as_unfinished(stopped, workdir, "stopped by a limit, a budget or a failure"))
    return found


def _read(path: Path) -> Running | None:
    try:
        return load_json(Running, path)
    except (OSError, ValueError):
        return None


def _as_unfinished(running: Running, workdir: Path, why: str) -> Unfinished:
    store = TrialStore(workdir / "trials")
    results = [result for spec in running.trials if (result := store.get(spec)) is not None]
    return Unfinished(
        suite=running.suite,
        asked=running.asked,
        started_at=running.started_at,
        done=sum(result.ok for result in results),
        failed=sum(not result.ok for result in results),
        total=len(running.trials),
        why=why,
    )
