"""Tables for people: percents, marks, shares; a page that needs nothing else."""

from __future__ import annotations

import pytest

from engine.conformance.measures import Share
from engine.conformance.page import mark, markdown, page, percent, share
from tests.engine.conformance.test_table import row

ROWS = [
    row("a", outputs=True, operators=True, thresholds=Share(equal=1, total=2)),
    row("<b>", outputs=False, march="bayes", held_out=True, message="because & so"),
]


@pytest.mark.parametrize(
    ("value", "digits", "expected"), [(None, 1, "-"), (0.5, 1, "50.0 %"), (0.12345, 1, "12.3 %"), (0.996, 0, "100 %")]
)
def test_percents(value: float | None, digits: int, expected: str) -> None:
    assert percent(value, digits) == expected


def test_marks_and_shares() -> None:
    assert [mark(value) for value in (None, True, False)] == ["-", "yes", "NO"]
    assert [share(value) for value in (None, Share(equal=3, total=4))] == ["-", "3/4"]


def test_the_page_is_complete_and_names_are_escaped() -> None:
    text = page("Title", ROWS)
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "<style" in text
    assert "://" not in text


def test_tables_of_measures_marches_and_networks() -> None:
    lines = markdown(ROWS).splitlines()
    assert lines[0].startswith("| measure | |")
    (outputs,) = (line for line in lines if line.startswith("| `outputs` |"))
    assert outputs.endswith("| 100.0 % | 0.0 % |"), "of what is seen, and of what is held out"
    headings = [
        line.split("|")[1].strip() for line in lines if line.startswith("| march") or line.startswith("| network")
    ]
    assert headings == ["march", "network"]
    first = {line.split("|")[1].strip() for line in lines if line}
    assert first >= {"bayes-e", "a"}
    assert not first & {"bayes", "<b>"}, "nothing of what is held out is shown by itself"
