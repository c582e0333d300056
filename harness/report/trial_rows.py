"""The trials of a sweep as the table of its page: columns, rows of plain values, and settings to filter by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.report.effects import in_order, level_of, varied
from harness.report.results import Sweep
from harness.trials.trial import TrialResult

FIGURES: tuple[tuple[str, str, float, int], ...] = (
    ("accuracy", "accuracy.quantized", 1, 4),
    ("Δ pt", "accuracy.delta", 100, 2),
    ("agree", "agreement", 1, 4),
    ("cosine", "cosine.output", 1, 5),
    ("min", "cosine.min", 1, 4),
    ("SQNR", "sqnr", 1, 1),
    ("BPU ms", "latency.ms", 1, 3),
    ("CPU ms", "latency.cpu_ms", 1, 3),
    ("MB", "ddr.mb", 1, 2),
    ("CPU", "cpu_nodes", 1, 0),
    ("BPU", "subgraphs", 1, 0),
)
"""Heading, figure, factor and decimals of the columns of figures."""

_FILTERS_FROM = 2


def table_of_trials(sweep: Sweep, links: Mapping[str, str]) -> dict[str, Any]:
    """``{columns, decimals, rows, filters}``: values as JSON holds them, rounded as they are shown.

    Args:
        sweep: a finished one.
        links: to the trials' pages, by key.
    """
    columns = ["", "model", "march", "settings", "verdict", *(figure[0] for figure in FIGURES), "±", "unmet", "s"]
    decimals = [*[None] * 5, *(figure[3] for figure in FIGURES), 2, 0, 2]
    return {
        "columns": columns,
        "decimals": decimals,
        "rows": [_row(sweep, result, links[result.spec.key]) for result in sweep.results],
        "filters": _filters(sweep.results),
    }


def _row(sweep: Sweep, result: TrialResult, link: str) -> dict[str, Any]:
    """Link and message stand beside the values of the columns."""
    spec, figures = result.spec, result.metrics()
    values: list[Any] = [
        sweep.marks(spec.key),
        spec.model,
        spec.march.value,
        spec.settings.label,
        sweep.verdict_of(spec.id).value,
        *(_rounded(figures.get(name), factor, decimals) for _, name, factor, decimals in FIGURES),
        _rounded(result.accuracy.margin if result.accuracy else None, 100, 2),
        len(result.unmet),
        round(sum(result.seconds.values()), 2),
    ]
    row: dict[str, Any] = {"id": spec.id, "link": link, "values": values}
    if result.failure is not None:
        failure = result.failure
        row["failed"] = f"failed in stage {failure.stage} ({failure.symptom.value}): {failure.text}"
    if spec.key in sweep.twins:
        row["same"] = sweep.twins[spec.key]
    if result.unmet:
        row["unmet"] = "\n".join(f"{unmet.node}: {unmet.request}: {unmet.reason}" for unmet in result.unmet[:20])
    return row


def _rounded(value: float | None, factor: float, decimals: int) -> float | None:
    return None if value is None else round(value * factor, decimals)


def _filters(results: tuple[TrialResult, ...]) -> list[dict[str, Any]]:
    """Model, march and swept settings: their values, and which one each row has."""
    found = [("model", [result.spec.model for result in results])]
    found.append(("march", [result.spec.march.value for result in results]))
    found += [(name, [level_of(result, name) for result in results]) for name in varied(results)]
    filters = []
    for name, values in found:
        levels = in_order(dict.fromkeys(values))
        if len(levels) >= _FILTERS_FROM:
            places = {level: index for index, level in enumerate(levels)}
            filters.append({"name": name, "levels": levels, "of": [places[value] for value in values]})
    return filters
