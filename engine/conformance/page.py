"""The page of a conformance run: all tables and, of the cases that are not held out, where each departs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

import jinja2

from engine.conformance.measures import Row, Share
from engine.conformance.table import MEASURES, SHORT, groups, of_family, of_march, parts


def page(title: str, rows: Sequence[Row]) -> str:
    """The page, complete in itself."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"percent": percent, "mark": mark, "share": share}
    return environment.get_template("conformance.html.j2").render(
        title=title,
        version=version("ptqlab"),
        rows=rows,
        measures=MEASURES,
        short=SHORT,
        parts=parts(rows),
        marches=groups(rows, of_march),
        families=groups(rows, of_family),
    )


def percent(value: float | None, digits: int = 1) -> str:
    """A share or relative error for people."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def mark(value: bool | None) -> str:
    """Whether something agrees."""
    return "-" if value is None else "yes" if value else "NO"


def share(value: Share | None) -> str:
    """How many agree."""
    return "-" if value is None else f"{value.equal}/{value.total}"


def _template(name: str) -> str:
    """A template of this room; the style is that of the pages of ``hb_perf``."""
    room = "engine.perf" if name == "style.css.j2" else "engine.conformance"
    return (files(room) / "templates" / name).read_text("utf-8")
