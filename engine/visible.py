"""Text from others, shown safely: characters that a terminal or a browser obeys instead of showing are written out.

Names of models, nodes and files may hold them: they would move the cursor, hide what stands beside them, or turn the
order of the letters round.
"""

from __future__ import annotations

import html
import logging
import re
from pathlib import PurePath

_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed; marks of direction (Unicode's Bidi_Control); ends of lines and
paragraphs; halves of pairs, which no encoding has."""

_FORGED = re.compile(r"\n(?=\s*\d{4}-\d\d-\d\d[ T]\d\d:\d\d)")
"""A line feed before what looks like the time that begins a line of a log."""

_MARKUP = re.compile(r"[\\`*_\[\]<>|&]")


def visible(text: str) -> str:
    """``text``, with control characters as Python writes them: ``\\x1b`` for escape, ``\\u202e`` for a turned order."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_one_line(text: str) -> str:
    """``text`` as :func:`visible` shows it, with tabs and line feeds written out too, as for a name."""
    return visible(text).replace("\t", r"\t").replace("\n", r"\n")


def in_markdown(text: str) -> str:
    """``text`` as Markdown that shows it: nothing in it is markup, and control characters are written out."""
    return _MARKUP.sub(r"\\\g<0>", visible(text))


def in_html(text: str) -> str:
    """``text`` as HTML, SVG and plotly, which takes some HTML, show it."""
    return html.escape(visible(text))


def in_picture(text: str) -> str:
    """``text`` as matplotlib shows it, which sets what stands between two dollars as a formula."""
    return visible(text).replace("$", r"\$")


class VisibleFormatter(logging.Formatter):
    """Lines of a log as :func:`visible` shows them; no name makes a line of its own.

    Text and paths that a message of one line is made of stay in that line. Tables, which a message breaks the line for,
    and errors may have several; none of theirs begins as those of a log do.
    """

    def format(self, record: logging.LogRecord) -> str:
        """As in the base class."""
        if isinstance(record.args, tuple) and "\n" not in str(record.msg):
            values = tuple(in_one_line(str(each)) if isinstance(each, str | PurePath) else each for each in record.args)
            record = logging.makeLogRecord({**record.__dict__, "args": values})
        return _FORGED.sub(r"\\n", visible(super().format(record)))
