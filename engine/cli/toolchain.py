"""Options of commands that run the user's own toolchain, and how they show what it is at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import open_console

if TYPE_CHECKING:
    from engine.cli.terminal import Terminal

MountOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mount", metavar="HOST=CONTAINER", help="A folder as the toolchain sees it, as in docker run -v; repeatable."
    ),
]
ConversionLimit = Annotated[
    float, typer.Option("--time-limit", min=0.1, help="Seconds that the toolchain may take for a conversion.")
]


class Activities:
    """What runs at the moment: a line that changes on a terminal; elsewhere a line per stage, or nothing.

    Args:
        console: where it is shown.
        lines: whether stages get a line each where there is no terminal.
    """

    def __init__(self, console: Terminal, *, lines: bool) -> None:
        self._console, self._lines = console, lines
        self._running: dict[str, str] = {}
        self._shown: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.status = console.status("") if console.is_terminal else None

    def tell(self, name: str, text: str) -> None:
        """``name`` is at ``text`` now; of ``compiles, 45 %`` only the first part is a stage."""
        stage = text.partition(",")[0]
        with self._lock:
            self._running[name] = text
            fresh = (name, stage) not in self._shown
            self._shown.add((name, stage))
            if self.status is None and self._lines and fresh:
                self._console.print(f"{name}: {stage}", highlight=False, soft_wrap=True)
            self._update()

    def done(self, name: str) -> None:
        """``name`` has ended."""
        with self._lock:
            self._running.pop(name, None)
            self._update()

    def _update(self) -> None:
        if self.status is not None:
            self.status.update("; ".join(f"{name}: {text}" for name, text in self._running.items()))


@contextmanager
def activities(*, lines: bool) -> Iterator[Activities]:
    """:class:`Activities` on standard error, which is left without a trace on a terminal."""
    shown = Activities(open_console(err=True), lines=lines)
    if shown.status is None:
        yield shown
    else:
        with shown.status:
            yield shown
