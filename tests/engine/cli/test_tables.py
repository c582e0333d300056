"""Tables align."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cli.tables import render

CELLS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=30)


def test_columns_align_and_numbers_stand_right() -> None:
    table = render(["Node", "Value"], [["conv", "1.5"], ["a long name", "10.25"]], frozenset({"Value"}))
    assert table.splitlines() == [
        "==================",
        "Node         Value",
        "------------------",
        "conv           1.5",
        "a long name  10.25",
    ]


def test_an_empty_table_has_its_header() -> None:
    assert render(["A", "B"], []).splitlines() == ["====", "A  B", "----"]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_every_column_starts_at_one_place(rows: list[tuple[str, str, str]]) -> None:
    lines = render(["X", "Y", "Z"], rows).split("\n")
    first = max([1, *(len(row[0]) for row in rows)]) + 2
    second = first + max([1, *(len(row[1]) for row in rows)]) + 2
    for line, row in zip(lines[3:], rows, strict=True):
        padded = line.ljust(second + 30)
        assert padded.startswith(row[0])
        assert padded[first:].startswith(row[1])
        assert padded[second:].startswith(row[2])


def test_a_cell_stays_in_its_line() -> None:
    assert render(["node"], [["conv\nERROR"], ["b"]]).splitlines()[3:] == [r"conv\nERROR", "b"]
