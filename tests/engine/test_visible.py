"""What is obeyed is written out; everything else stays."""

from __future__ import annotations

import logging
import sys
import unicodedata
from pathlib import Path

import pytest

from engine.visible import VisibleFormatter, in_html, in_markdown, in_one_line, in_picture, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("conv/1:w é 名 👩‍💻\t\n", "conv/1:w é 名 👩‍💻\t\n"),
        ("\x1b[2Ka\rb\x07", "\\x1b[2Ka\\rb\\x07"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\x9b31m\x7f\0", "\\x9b31m\\x7f\\x00"),
        ("a\u2028b\ud800", "a\\u2028b\\ud800"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_a_name_is_one_line() -> None:
    assert in_one_line("a\n\tb\x1b") == r"a\n\tb\x1b"


def test_no_control_character_of_unicode_is_left() -> None:
    kept = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {each for each in visible(kept) if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")}
    assert left == {"\t", "\n"}
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not [each for each in visible(kept) if unicodedata.bidirectional(each) in turning]


def test_a_line_of_a_log() -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s is damaged", ("\x1b[1A",), None)
    assert VisibleFormatter("%(levelname)s %(message)s").format(record) == "WARNING \\x1b[1A is damaged"


FORGED = "conv\n2026-11-22 00:00:00,000 INFO Convert to runtime bin file successfully!"


@pytest.mark.parametrize("name", [FORGED, "conv\nERROR exception in command: makertbin", Path(FORGED)])
def test_no_name_makes_a_line_of_a_log(name: str | Path) -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "node %s of %d", (name, 3), None)
    line = VisibleFormatter("%(asctime)s %(levelname)s %(message)s").format(record)
    assert "\n" not in line
    assert line.endswith(f"WARNING node {name} of 3".replace("\n", r"\n"))
    assert record.args == (name, 3), "other handlers have their own form"


def test_an_error_and_a_table_of_several_lines_begin_none_of_a_log() -> None:
    formatter = VisibleFormatter("%(asctime)s %(levelname)s %(message)s")
    for message, value in (("%s", ValueError(f"first\n{FORGED}")), ("table:\n%s", f"===\n{FORGED}")):
        record = logging.LogRecord("n", logging.ERROR, "f", 1, message, (value,), None)
        lines = formatter.format(record).splitlines()
        assert [line for line in lines if line[:4].isdigit()] == lines[:1]
        assert r"conv\n2026" in lines[-1]


def test_markdown_shows_the_text() -> None:
    assert in_markdown("a_b *c* `d` [e](f) <g> h|i &lt; \\ \x1b") == (
        r"a\_b \*c\* \`d\` \[e\](f) \<g\> h\|i \&lt; \\ \\x1b"
    )


def test_plots_and_pictures_take_no_markup() -> None:
    assert in_html("<a href='x'>\x1b") == "&lt;a href=&#x27;x&#x27;&gt;\\x1b"
    assert in_picture("$x^2$ \x07") == r"\$x^2\$ \x07"
