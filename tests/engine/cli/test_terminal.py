"""Text of strangers on a console: neither markup nor control of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from engine.cli.terminal import Terminal

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
