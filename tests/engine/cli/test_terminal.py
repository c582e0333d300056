"""Text of strangers on a console: neither markup nor control of the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from engine.cli.terminal import Terminal
from engine.visible import visible

NAMES = ("[red]a[/red]", "[/]", ":warning:", "\x1b[2K\x1b[1Aover", "\u202eback", "\x9b31m", "bell\x07")


def shown(name: str, *, terminal: bool) -> str:
    stream = io.StringIO()
    console = Terminal(file=stream, width=80, force_terminal=terminal, color_system="truecolor" if terminal else None)
    table = Table("name", "again")
    table.add_row(name, name)
    console.print(table)
    console.print(Text(name, style="red"))
    return stream.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_text_in_tables_and_lines(name: str) -> None:
    text = shown(name, terminal=False)
    assert "\x1b" not in text
    for character in ("\u202e", "\x9b", "\x07"):
        assert character not in text
    expected = {"\x1b[2K\x1b[1Aover": "\\x1b[2K\\x1b[1Aover", "\u202eback": "\\u202eback", "\x9b31m": "\\x9b31m"}
    assert text.count(expected.get(name, name.removesuffix("\x07"))) == 3


def test_what_rich_itself_writes_still_works() -> None:
    text = shown("\x1b[2Kname", terminal=True)
    assert "\x1b[31m" in text
    assert "\x1b[2K" not in text
    assert text.count("\\x1b[2Kname") == 3


@pytest.mark.parametrize("kind", [str, Text])
@pytest.mark.parametrize("width", [1, 7, 12, 30])
def test_folding_loses_nothing_of_a_name(kind: Callable[[str], RenderableType], width: int) -> None:
    name = "conv\x1b[2K\x1b]0\u202e[red][/]" * 3
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(overflow="fold", max_width=width)
    table.add_row(kind(name))
    stream = io.StringIO()
    Terminal(file=stream, width=80).print(table)
    assert "".join(line.rstrip() for line in stream.getvalue().splitlines()) == visible(name)


def test_styles_stay_where_they_were() -> None:
    text = Text("a\x1bbc\x1bd")
    text.stylize("red", 2, 5)
    stream = io.StringIO()
    Terminal(file=stream, width=80, force_terminal=True, color_system="truecolor").print(text)
    assert stream.getvalue() == "a\\x1b\x1b[31mbc\\x1b\x1b[0md\n"
