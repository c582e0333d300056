"""A conformance run for people: a page with all tables and where each case departs, and the tables for documents."""

from __future__ import annotations

from collections.abc import Sequence

from engine.conformance.measures import Row, Share
from engine.conformance.table import MEASURES, SHORT, groups, of_family, of_march, parts
from engine.pages import package_loader, page_templates, rendered
from engine.version import installed_version


def page(title: str, rows: Sequence[Row]) -> str:
    """The page, complete in itself."""
    found = page_templates(package_loader("engine.conformance"))
    found.filters |= {"percent": percent, "mark": mark, "share": share}
    return rendered(
        found.get_template("conformance.html.j2"),
        title=title,
        version=installed_version(),
        rows=rows,
        measures=MEASURES,
        short=SHORT,
        parts=parts(rows),
        marches=groups(rows, of_march),
        families=groups(rows, of_family),
    )


def markdown(rows: Sequence[Row]) -> str:
    """The tables for a document: all measures, per march, per network."""
    columns = parts(rows)
    lines = [
        f"| measure | | {' | '.join(f'{column.name} ({column.cases})' for column in columns)} |",
        f"|---|---|{'---:|' * len(columns)}",
        *(
            f"| `{name}` | {measure.title} | {' | '.join(percent(column.values[name]) for column in columns)} |"
            for name, measure in MEASURES.items()
        ),
    ]
    for heading, found in (("march", groups(rows, of_march)), ("network", groups(rows, of_family))):
        lines += ["", f"| {heading} | cases | {' | '.join(SHORT)} |", f"|---|---:|{'---:|' * len(SHORT)}"]
        lines += [
            f"| {each.name} | {each.cases} | {' | '.join(percent(each.values[name], 0) for name in SHORT)} |"
            for each in found
        ]
    return "\n".join(lines) + "\n"


def percent(value: float | None, digits: int = 1) -> str:
    """A share or relative error for people."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def mark(value: bool | None) -> str:
    """Whether something agrees."""
    return "-" if value is None else "yes" if value else "NO"


def share(value: Share | None) -> str:
    """How many agree."""
    return "-" if value is None else f"{value.equal}/{value.total}"
