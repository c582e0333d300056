"""Text of strangers for people: characters that a terminal or a browser obeys, instead of showing them, written out.

Names of models, nodes and files may hold them: they would move the cursor, hide what stands beside them, or turn the
order of the letters round.
"""

from __future__ import annotations

import html
import logging
import re

_OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed; marks of direction (Unicode's Bidi_Control); ends of lines and
paragraphs; halves of pairs, which no encoding has."""

_MARKUP = re.compile(r"[\\`*_\[\]<>|&]")


def visible(text: str) -> str:
    """``text``, its obeyed characters as Python writes them: ``\\x1b`` for escape, ``\\u202e`` for a turned order."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_markdown(text: str) -> str:
    """``text`` as Markdown that shows it: none of its letters is markup, and those that are obeyed are written out."""
    return _MARKUP.sub(r"\\\g<0>", visible(text))


def in_html(text: str) -> str:
    """``text`` as HTML, SVG and plotly, which takes some HTML, show it."""
    return html.escape(visible(text))


def in_picture(text: str) -> str:
    """``text`` as matplotlib shows it, which sets what stands between two dollars as a formula."""
    return visible(text).replace("$", r"\$")


class VisibleFormatter(logging.Formatter):
    """Lines of a log as :func:`visible` shows them."""

    def format(self, record: logging.LogRecord) -> str:
        """As that of the base class."""
        return visible(super().format(record))
