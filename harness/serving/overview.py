"""What the first page shows: suites, whether one runs, how its nights went."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.errors import ConfigError
from harness.files.cache import load_json
from harness.gates.baseline import ACCURACY
from harness.gates.nights import Night, read_nights
from harness.gates.verdicts import Verdict
from harness.gates.verdicts import worst as worst_of
from harness.report.results import REPORT_FILE, SWEEP_FILE, TABLE_FILE, SweepSummary
from harness.sweeps.resuming import Unfinished, unfinished

WIDTH, HEIGHT = 160, 28
"""Pixels of the line of nights."""


@dataclass(frozen=True)
class NightRow:
    """One night as the table shows it.

    Attributes:
        started_at: local time, ISO 8601.
        verdict: of the sweep.
        accuracy: mean over its trials; None where none has one.
        trials: that succeeded.
        engine: version.
    """

    started_at: str
    verdict: str
    accuracy: float | None
    trials: int
    engine: str


@dataclass(frozen=True)
class ScoreRow:
    """Accuracy of one model on one march in the last sweep.

    Attributes:
        model, march: of the trials.
        verdict: the worst of them.
        float_value: of the float model.
        best, worst: accuracy of the most and the least accurate trial.
        best_setting, worst_setting: their settings.
        trials: that have an accuracy.
    """

    model: str
    march: str
    verdict: str
    float_value: float
    best: float
    best_setting: str
    worst: float
    worst_setting: str
    trials: int


@dataclass(frozen=True)
class SuiteRow:
    """One suite.

    Attributes:
        name: of the suite.
        summary: of its last finished sweep; None where there is none.
        running: what is known of a sweep that has not finished.
        nights: the last one first.
        damaged: why its record of nights cannot be read; empty where it can.
        has_report: whether its page is there.
        scores: of its last finished sweep.
    """

    name: str
    summary: SweepSummary | None
    running: Unfinished | None
    nights: tuple[NightRow, ...]
    damaged: str
    has_report: bool
    scores: tuple[ScoreRow, ...] = ()

    @property
    def line(self) -> str:
        """Points of a polyline in a box of :data:`WIDTH` x :data:`HEIGHT`: accuracy by night, the last at the right."""
        values = [night.accuracy for night in reversed(self.nights) if night.accuracy is not None]
        return points(values)


def points(values: Sequence[float]) -> str:
    """A polyline's points of ``values``, the greatest at the top; empty for less than two."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return " ".join(
        f"{2 + (WIDTH - 4) * index / (len(values) - 1):.1f},{HEIGHT - 3 - (HEIGHT - 6) * (value - low) / span:.1f}"
        for index, value in enumerate(values)
    )


def overview(workdir: Path) -> list[SuiteRow]:
    """All suites with a folder below ``workdir/sweeps``, by name; folders without a sweep or a run are left out."""
    waiting = {one.suite: one for one in unfinished(workdir)}
    rows = []
    for folder in sorted((workdir / "sweeps").glob("[!.]*")):
        summary = _summary(folder)
        running = waiting.get(folder.name)
        if summary is None and running is None:
            continue
        nights, damaged = _nights(folder)
        has_report, scores = (folder / REPORT_FILE).is_file(), () if summary is None else _scores(folder)
        rows.append(SuiteRow(folder.name, summary, running, nights, damaged, has_report, scores))
    return rows


def _summary(folder: Path) -> SweepSummary | None:
    try:
        return load_json(SweepSummary, folder / SWEEP_FILE)
    except (OSError, ValueError):
        return None


def _scores(folder: Path) -> tuple[ScoreRow, ...]:
    """From the sweep's table, which is read again only once it was written anew; nothing where it cannot be read."""
    table = folder / TABLE_FILE
    try:
        return _scores_in(table, table.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError):
        return ()


@lru_cache(maxsize=256)
def _scores_in(table: Path, written: int) -> tuple[ScoreRow, ...]:
    del written
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    with table.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            groups.setdefault((row["model"], row["march"]), []).append(row)
    return tuple(found for group in groups.values() if (found := _score_row(group)) is not None)


def _score_row(group: Sequence[Mapping[str, str]]) -> ScoreRow | None:
    """The row of one model and march; None where no trial has an accuracy."""
    scored = [row for row in group if row.get(ACCURACY)]
    if not scored:
        return None
    best, worst = (choose(scored, key=lambda row: float(row[ACCURACY])) for choose in (max, min))
    return ScoreRow(
        model=best["model"],
        march=best["march"],
        verdict=worst_of(Verdict(row["verdict"]) for row in group).value,
        float_value=float(best["accuracy.float"]),
        best=float(best[ACCURACY]),
        best_setting=best["settings"],
        worst=float(worst[ACCURACY]),
        worst_setting=worst["settings"],
        trials=len(scored),
    )


def _nights(folder: Path) -> tuple[tuple[NightRow, ...], str]:
    try:
        found = read_nights(folder)
    except ConfigError as error:
        return (), str(error)
    return tuple(_row(night) for night in reversed(found)), ""


def _row(night: Night) -> NightRow:
    scores = [trial.figures[ACCURACY] for trial in night.trials.values() if ACCURACY in trial.figures]
    mean = sum(scores) / len(scores) if scores else None
    return NightRow(night.started_at, night.verdict.value, mean, len(night.trials), night.engine)
