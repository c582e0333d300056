"""How commands print lines and tables: tables fit the width of a terminal; in a file or pipe nothing is cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from engine.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

    from engine.cli.terminal import Terminal

PIPED_WIDTH = 1000
"""Columns where there is no terminal and ``COLUMNS`` does not say otherwise: no name is cut or broken, so that other
programs can search what is printed."""


def say(text: object, *, nl: bool = True, err: bool = False) -> None:
    """Print ``text``, which may hold names from files of others.

    Args:
        text: control characters in it are written out, so that they have no effect on a terminal.
        nl: whether a line feed follows.
        err: whether it goes to standard error.
    """
    typer.echo(visible(str(text)), nl=nl, err=err)


def open_console(piped_width: int = PIPED_WIDTH, *, err: bool = False) -> Terminal:
    """A console for people and for pipes, which are ``piped_width`` wide unless ``COLUMNS`` says otherwise.

    Args:
        piped_width: columns where there is no terminal.
        err: whether it prints to standard error.
    """
    from engine.cli.terminal import Terminal

    console = Terminal(stderr=err)
    return console if console.is_terminal or "COLUMNS" in os.environ else Terminal(width=piped_width, stderr=err)


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
