"""What is obeyed is written out; everything else stays."""

from __future__ import annotations

import logging
import sys
import unicodedata

import pytest

from engine.visible import VisibleFormatter, in_html, in_markdown, in_picture, visible


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


def test_no_control_character_of_unicode_is_left() -> None:
    kept = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {each for each in visible(kept) if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")}
    assert left == {"\t", "\n"}
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not [each for each in visible(kept) if unicodedata.bidirectional(each) in turning]


def test_a_line_of_a_log() -> None:
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s is damaged", ("\x1b[1A",), None)
    assert VisibleFormatter("%(levelname)s %(message)s").format(record) == "WARNING \\x1b[1A is damaged"


def test_markdown_shows_the_text() -> None:
    assert in_markdown("a_b *c* `d` [e](f) <g> h|i &lt; \\ \x1b") == (
        r"a\_b \*c\* \`d\` \[e\](f) \<g\> h\|i \&lt; \\ \\x1b"
    )


def test_plots_and_pictures_take_no_markup() -> None:
    assert in_html("<a href='x'>\x1b") == "&lt;a href=&#x27;x&#x27;&gt;\\x1b"
    assert in_picture("$x^2$ \x07") == r"\$x^2\$ \x07"
