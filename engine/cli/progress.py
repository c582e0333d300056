"""How far a command has got, on standard error: a bar with the time left on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.cli.console import say

FIRST_LINE, BETWEEN_LINES = 5.0, 30.0
"""Seconds after which the first line is printed where there is no terminal, and those between two lines."""
_LEAST_SHARE = 0.01
"""Share that is done from which the speed so far says something."""


def in_words(seconds: float) -> str:
    """A time for people: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def watched(what: str) -> Iterator[Callable[[float], None]]:
    """Show how much of ``what`` is done, and how long the rest takes at the speed so far.

    Yields:
        A function to be called with the share that is done, 0 to 1, from any thread.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from engine.cli.terminal import Terminal

    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield _Lines(what)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share: progress.update(task, completed=share)


class _Lines:
    """Prints a line now and then."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._begun = clock()
        self._next = self._begun + FIRST_LINE

    def __call__(self, share: float) -> None:
        now = self._clock()
        if now < self._next or not 0 < share < 1:
            return
        self._next = now + BETWEEN_LINES
        left = (now - self._begun) * (1 - share) / share
        ahead = f", about {in_words(left)} left" if share >= _LEAST_SHARE else ""
        say(f"{self._what}: {share:.0%} done{ahead}", err=True)
