"""The earlier nights of a suite as its page holds them, so that a reader can compare with any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.gates.nights import WATCHED, Night
from harness.report.results import Sweep

MOST_VALUES = 300_000
"""Figures of earlier nights that a page holds; of more nights the last ones."""

DIGITS = 7
"""Significant digits of them."""


def nights_data(sweep: Sweep, nights: Sequence[Night]) -> dict[str, Any]:
    """``{figures, trials, now, nights, left}``, with values by figure and trial, None where there is none.

    Args:
        sweep: what is compared.
        nights: of the suite, the first one first; the sweep's own is left out.
    """
    earlier = [night for night in nights if night.sweep != sweep.summary.id and night.trials]
    trials = [result.spec.id for result in sweep.results]
    most = max(1, MOST_VALUES // max(1, len(trials) * len(WATCHED)))
    figures = list(WATCHED)
    metrics = [result.metrics() for result in sweep.results]
    return {
        "figures": figures,
        "better": list(WATCHED.values()),
        "trials": trials,
        "now": [[_rounded(found.get(figure)) for found in metrics] for figure in figures],
        "nights": [_night(night, trials, figures) for night in reversed(earlier[-most:])],
        "left": max(0, len(earlier) - most),
    }


def _night(night: Night, trials: Sequence[str], figures: Sequence[str]) -> dict[str, Any]:
    known = [night.trials[trial].figures if trial in night.trials else {} for trial in trials]
    return {
        "at": night.started_at[:16].replace("T", " "),
        "version": night.version,
        "verdict": night.verdict.value,
        "engine": night.engine,
        "commit": (night.commit or "")[:12],
        "gone": sorted(set(night.trials) - set(trials)),
        "values": [[_rounded(found.get(figure)) for found in known] for figure in figures],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
