"""What a hunt found, for people: the figure, tables, groups, and the row of a time series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Any

from engine.conformance.hunt.agreement import PER_DRAW, TABLES, Figure, by, figure, headline, rows_of, share_of_things
from engine.conformance.hunt.groups import GROUPS, counts
from engine.conformance.hunt.hunting import Findings
from engine.version import installed_version

PAGE, SUMMARY = "README.md", "summary.json"
"""Files of a hunt: for people, for programs."""
SERIES = ("converts", "outputs", "operators", "thresholds", "devices", "subgraphs", "simulator")
"""Columns of the time series."""
_PHRASES = {"outputs": "outputs equal", "operators": "operators equal"}


def sentence(findings: Findings) -> str:
    """The figure, as in ``outputs equal 93.4 % (95 % interval 92.1 to 94.5; 1,600 draws)``."""
    rows = rows_of(findings.outcomes)
    measure = headline(rows)
    found = figure(rows, measure)
    if found.share is None:
        return f"nothing can be compared yet ({len(findings.outcomes):,} draws)"
    low, high = found.interval
    what = "windows of the network" if findings.settings.network else "networks nobody chose"
    return (
        f"agreement on {what}: {_PHRASES[measure]} {100 * found.share:.1f} % "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f}; {found.total:,} of {len(findings.outcomes):,} draws)"
    )


def figures(findings: Findings) -> dict[str, Figure]:
    """All measures: those per draw, and the shares of thresholds and nodes."""
    rows = rows_of(findings.outcomes)
    found = {name: figure(rows, name) for name in PER_DRAW}
    found["thresholds"] = share_of_things(rows, lambda row: row.thresholds)
    found["devices"] = share_of_things(rows, lambda row: row.devices)
    return found


def series_row(findings: Findings, day: date) -> str:
    """One row of the time series: day, version, seed, marches, draws, and :data:`SERIES`."""
    found = figures(findings)
    cells = [day.isoformat(), installed_version(), str(findings.settings.seed), ", ".join(findings.settings.marches)]
    cells += [f"{len(rows_of(findings.outcomes)):,}"]
    cells += [_share(found[name]) if name in ("thresholds", "devices") else str(found[name]) for name in SERIES]
    return f"| {' | '.join(cells)} |"


def summary(findings: Findings) -> dict[str, Any]:
    """Everything, for programs."""
    measure = headline(rows_of(findings.outcomes))
    found = counts(findings.outcomes)
    return {
        "version": installed_version(),
        "settings": findings.settings.model_dump(mode="json"),
        "draws": len(findings.outcomes),
        "answered": len(rows_of(findings.outcomes)),
        "figure": measure,
        "measures": {name: _as_dict(value) for name, value in figures(findings).items()},
        "by": {
            title: {key: _as_dict(value) for key, value in by(findings.outcomes, keys, measure).items()}
            for title, keys in TABLES.items()
        },
        "groups": [{**group.model_dump(mode="json"), "draws": found[group.signature]} for group in findings.groups],
        "unanswered": {str(each.index): each.failure for each in findings.outcomes if each.failure},
    }


def hunt_page(findings: Findings, day: date) -> str:
    """The page of a hunt, in Markdown; ``day`` is that of the row of the time series."""
    settings, total = findings.settings, len(findings.outcomes)
    found = counts(findings.outcomes)
    measure = headline(rows_of(findings.outcomes))
    lines = [
        "# What the original and ptqlab convert differently",
        "",
        f"{sentence(findings)[0].upper()}{sentence(findings)[1:]}.",
        "",
        f"Version {installed_version()}, seed {settings.seed}, marches {', '.join(settings.marches)}. Intervals are "
        "Wilson's. Shares of thresholds and nodes have none: those of one network depend on each other.",
        "",
        *_table(("measure", "share"), [(name, _text(name, value)) for name, value in figures(findings).items()]),
    ]
    for title, keys in TABLES.items():
        rows = [(key, f"{value.total}", str(value)) for key, value in by(findings.outcomes, keys, measure).items()]
        lines += ["", f"## {measure.capitalize()} by {title}", "", *_table((title, "draws", measure), rows)]
    lines += ["", "## Groups of departures, the most frequent first", ""]
    for number, group in enumerate(findings.groups, 1):
        lines += [f"{number}. {group.sentence(found[group.signature], total)} `{GROUPS}/{group.name}`"]
    if not findings.groups:
        lines += ["None."]
    failed = [each for each in findings.outcomes if each.failure]
    if failed:
        lines += ["", "## Draws without an answer", ""]
        lines += [f"- {each.index} ({each.march}): {each.failure}" for each in failed]
    heading = ("day", "version", "seed", "marches", "draws", *SERIES)
    lines += ["", "## Row of the time series", "", *_table(heading, ()), series_row(findings, day)]
    return "\n".join(lines) + "\n"


def summary_json(findings: Findings) -> bytes:
    """:func:`summary` as a file."""
    return json.dumps(summary(findings), indent=1).encode()


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heading)} |",
        f"|---|{'---:|' * (len(heading) - 1)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _text(name: str, value: Figure) -> str:
    return _share(value) if name in ("thresholds", "devices") else f"{value}, {value.equal} of {value.total} draws"


def _share(value: Figure) -> str:
    return "-" if value.share is None else f"{100 * value.share:.2f} % of {value.total:,}"


def _as_dict(value: Figure) -> dict[str, object]:
    return {"equal": value.equal, "total": value.total, "share": value.share, "interval": value.interval}
