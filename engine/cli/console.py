"""Where commands print tables: a terminal as wide as it is, a file or pipe without cutting anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 1000
"""Columns where there is no terminal and ``COLUMNS`` does not say otherwise: no name is cut or broken, so that other
programs can search what is printed."""


def open_console() -> Console:
    """A console for people and for pipes."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=PIPED_WIDTH)


def plain_table(*names: str, figures: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Table:
    """A table that stays readable at 80 columns: headings and figures stay whole, names and words are folded.

    Args:
        names: headings of columns of names, the first of which may need most room.
        figures: headings of columns of figures behind them.
        words: headings of columns of text at the end, which take what room is left.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, name in enumerate(names):
        table.add_column(name, overflow="fold", min_width=max(len(name), 0 if position else _LEAST_NAME))
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for name in words:
        table.add_column(name, overflow="fold", min_width=len(name.split()[0]))
    return table


_LEAST_NAME = 12
"""Columns that the first name has at least."""
