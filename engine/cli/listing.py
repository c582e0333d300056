"""Rows that begin with a name: a table where all of it fits, else with words below each row, or names above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from engine.cli.console import plain_table
from engine.visible import visible

LEAST_WORDS = 30
"""Columns that a table leaves for words at least."""
_GAP, _INDENT, _WORDS_INDENT = 2, 2, 4


class _Row(NamedTuple):
    cells: tuple[str, ...]
    style: str


class Listing:
    """What :func:`~engine.cli.console.plain_table` makes a table of, for names that may be long; rich prints it.

    No name, type or figure is broken where the terminal is wide enough for each by itself.

    Args:
        names: headings of columns of names; the first is what a row is about.
        figures: headings of columns of figures behind them.
        words: heading of a column of text at the end.
    """

    def __init__(self, *names: str, figures: tuple[str, ...] = (), words: str) -> None:
        self._names, self._figures, self._words = names, figures, words
        self._rows: list[_Row] = []

    def add_row(self, *cells: str, style: str = "") -> None:
        """A row, its cells in the order of the headings; ``style`` is rich's."""
        self._rows.append(_Row(tuple(visible(cell) for cell in cells), style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The table, or the lines."""
        *widths, words = (max(map(cell_len, column)) for column in zip(*self._lines(), strict=True))
        row = sum(widths) + _GAP * (len(widths) - 1)
        if row + _GAP + min(words, LEAST_WORDS) <= options.max_width:
            yield self._table()
        else:
            yield from self._apart(widths, names_above=row > options.max_width)

    def _lines(self) -> list[tuple[str, ...]]:
        return [(*self._names, *self._figures, self._words), *(row.cells for row in self._rows)]

    def _table(self) -> Table:
        table = plain_table(*self._names, figures=self._figures, words=(self._words,))
        for row in self._rows:
            table.add_row(*map(Text, row.cells), style=row.style or None)
        return table

    def _apart(self, widths: list[int], *, names_above: bool) -> Iterator[RenderableType]:
        """Each row in columns of ``widths``, but its words in a paragraph below it, and its name above if asked."""
        has_words = any(row.cells[-1] for row in self._rows)
        for position, (*cells, words) in enumerate(self._lines()):
            style = self._rows[position - 1].style if position else "bold"
            columns = self._in_columns(cells, widths)
            if names_above:
                yield Text(cells[0], style, overflow="fold")
                columns = [" " * (_INDENT - _GAP), *columns[1:]]
            yield Text((" " * _GAP).join(columns).rstrip(), style)
            if words and (position or has_words):
                yield Padding(Text(words, style), (0, 0, 0, _WORDS_INDENT), expand=False)

    def _in_columns(self, cells: list[str], widths: list[int]) -> list[str]:
        padded = []
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            blank = " " * (width - cell_len(cell))
            padded.append(f"{cell}{blank}" if index < len(self._names) else f"{blank}{cell}")
        return padded
