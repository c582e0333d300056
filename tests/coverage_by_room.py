"""Coverage of a run of the tests, room by room: ``python -m tests.coverage_by_room coverage.json``.

The file that ``[tool.slipcover]`` of ``pyproject.toml`` names is printed as a table in Markdown: for a terminal and for
the page of a job.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class Lines(NamedTuple):
    """Lines that a test has run, and all lines that can be run."""

    run: int
    all: int

    def __add__(self, other: object) -> Lines:
        assert isinstance(other, Lines)
        return Lines(self.run + other.run, self.all + other.all)

    @property
    def percent(self) -> float:
        """100 where nothing can be run."""
        return 100.0 * self.run / self.all if self.all else 100.0


def room(path: str) -> str:
    """The folder below the package that a file lies in, or the package itself."""
    return "/".join(PurePosixPath(path).parent.parts[:2])


def by_room(files: Mapping[str, Mapping[str, list[int]]]) -> dict[str, Lines]:
    """Sums by room of files: paths relative to the repository, with ``executed_lines`` and ``missing_lines``."""
    rooms: dict[str, Lines] = {}
    for path, lines in sorted(files.items()):
        run = len(lines["executed_lines"])
        rooms[room(path)] = rooms.get(room(path), Lines(0, 0)) + Lines(run, run + len(lines["missing_lines"]))
    return rooms


def table(rooms: Mapping[str, Lines]) -> str:
    """A row for each room, and one for all of them."""
    rows = [*sorted(rooms.items()), ("all", sum(rooms.values(), Lines(0, 0)))]
    width = max(len(name) for name, _ in rows)
    head = [f"| {'room':{width}} |  lines |    run | coverage |", f"|{'-' * (width + 2)}|-------:|-------:|---------:|"]
    return "\n".join(head + [f"| {n:{width}} | {x.all:6d} | {x.run:6d} | {x.percent:6.1f} % |" for n, x in rows])


if __name__ == "__main__":
    sys.stdout.write(table(by_room(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"])) + "\n")
