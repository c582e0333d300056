"""Rich's console for text from files of others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from engine.visible import visible


class Terminal(Console):
    """A console that takes no text as markup, emoji or terminal control; only rich's own output is."""

    def __init__(self, **options: Any) -> None:
        """As in the base class."""
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """As in the base class, for ``text`` as it is shown, so that tables have room for it."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As in the base class; control characters are written out before lines are broken."""
        if isinstance(renderable, Text):
            renderable = _shown(renderable)
        for segment in super().render(renderable, options):
            text = visible(segment.text)
            yield segment if segment.control or text == segment.text else segment._replace(text=text)


def _shown(text: Text) -> Text:
    """``text`` with its control characters written out, and its styles in place."""
    if (plain := visible(text.plain)) == text.plain:
        return text
    places = [0, *accumulate(len(visible(character)) for character in text.plain)]
    shown = text.blank_copy(plain)
    shown.spans = [Span(places[span.start], places[min(span.end, len(text))], span.style) for span in text.spans]
    return shown
