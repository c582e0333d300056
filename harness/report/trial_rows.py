"""The trials of a sweep as the table of its page: columns, rows of plain values, and settings to filter by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.columns import Column, Value
from harness.report.effects import in_order, level_of, varied
from harness.report.results import Sweep
from harness.trials.trial import TrialResult, TrialStore

_FILTERS_FROM = 2


def table_of_trials(
    sweep: Sweep, links: Mapping[str, str], store: TrialStore, columns: Sequence[Column]
) -> dict[str, Any]:
    """``{columns, decimals, rows, filters}``: values as JSON holds them, rounded as they are shown.

    Args:
        sweep: a finished one.
        links: to the trials' pages, by key.
        store: of the trials.
        columns: of figures, see :func:`harness.report.columns.columns`.
    """
    return {
        "columns": ["", "model", "march", "settings", "verdict", *(column.heading for column in columns)],
        "decimals": [*[None] * 5, *(column.decimals for column in columns)],
        "rows": [_row(sweep, result, links[result.spec.key], store, columns) for result in sweep.results],
        "filters": _filters(sweep.results),
    }


def _row(sweep: Sweep, result: TrialResult, link: str, store: TrialStore, columns: Sequence[Column]) -> dict[str, Any]:
    """Link and message stand beside the values of the columns; the page shows no figures of a trial that failed."""
    spec = result.spec
    values: list[Any] = [
        sweep.marks(spec.key),
        spec.model,
        spec.march.value,
        spec.settings.label,
        sweep.verdict_of(spec.id).value,
        *(_rounded(column.value(result, store) if result.ok else None, column.decimals) for column in columns),
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


def _rounded(value: Value, decimals: int | None) -> Value:
    return value if decimals is None or value is None or isinstance(value, str) else round(value, decimals)


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
