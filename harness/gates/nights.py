"""What is kept of a suite's nights, so that drift since the anchor can be seen: ``nights.jsonl`` beside the sweep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from engine.errors import ConfigError
from engine.ir import write_atomically
from engine.sealed import sealed, unsealed
from harness.files.strict_yaml import StrictModel
from harness.gates.baseline import ACCURACY, Baseline
from harness.gates.paired import MetricEvidence, p_ahead
from harness.gates.verdicts import Verdict
from harness.trials.trial import TrialResult

NIGHTS_FILE = "nights.jsonl"

WATCHED: Mapping[str, int] = {ACCURACY: 1, "cosine.output": 1, "latency.total_ms": -1}
"""Figures whose drift is followed; 1 where more is better."""


class TrialNight(StrictModel):
    """One trial in one night.

    Attributes:
        figures: those of :data:`WATCHED` that it has.
        predictions: digest of its scores per sample; equal in nights that need no new look.
        p: probability of a loss of accuracy as great as this since the anchor, if there were none (one-sided, paired);
            None without an anchor that can be paired.
    """

    figures: Mapping[str, float]
    predictions: str
    p: float | None = None


class Night(StrictModel):
    """One night of a suite.

    Attributes:
        sweep: id of the sweep.
        started_at: local time, ISO 8601.
        version: of the suite.
        verdict: of the sweep.
        engine, commit: what computed it.
        anchor: what the anchor's trials had, by figure and trial; empty without an anchor.
        trials: by id.
    """

    sweep: str
    started_at: str
    version: int
    verdict: Verdict
    engine: str
    commit: str | None = None
    anchor: Mapping[str, Mapping[str, float]] = {}
    trials: Mapping[str, TrialNight] = {}


def trial_night(
    result: TrialResult, predictions: Mapping[str, NDArray[Any]], anchor: Baseline | None
) -> TrialNight | None:
    """What is kept of a trial; None where it failed."""
    if not result.ok:
        return None
    scores = np.asarray(predictions.get("per_sample", ()), np.float64)
    figures = {name: value for name, value in result.metrics().items() if name in WATCHED}
    accepted = anchor.trials.get(result.spec.id) if anchor is not None else None
    before = None if accepted is None else MetricEvidence.of_accepted(accepted, result)
    now = MetricEvidence.of(result, predictions)
    p = float(p_ahead(before, [now])[0]) if before is not None and now is not None and before.pairs_with(now) else None
    return TrialNight(figures=figures, predictions=hashlib.sha256(scores.tobytes()).hexdigest()[:16], p=p)


def read_nights(folder: Path) -> list[Night]:
    """The nights that ``folder`` keeps, the first one first; none where it keeps none.

    Raises:
        ConfigError: the file is damaged.
    """
    path = folder / NIGHTS_FILE
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    nights = []
    for number, line in enumerate(lines, 1):
        try:
            nights.append(Night.model_validate_json(unsealed(line)))
        except ValidationError as error:
            raise ConfigError(
                f"{path}, line {number}: is not a record of a night ({error.errors()[0]['msg']})"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: {error}; restore the file, or remove the line") from error
    return nights


def append_night(night: Night, folder: Path) -> None:
    """Add ``night`` to what ``folder`` keeps, unless it is there."""
    nights = read_nights(folder)
    if night.sweep not in {kept.sweep for kept in nights}:
        write_nights([*nights, night], folder)


def write_nights(nights: Sequence[Night], folder: Path) -> None:
    """Keep ``nights`` in ``folder``, atomically."""
    lines = [sealed(night.model_dump_json(exclude_defaults=True)) for night in nights]
    write_atomically(folder / NIGHTS_FILE, b"".join(line + b"\n" for line in lines))
