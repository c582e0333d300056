"""Plain-text tables: for terminals and log files alike."""

from __future__ import annotations

from collections.abc import Sequence

from engine.visible import in_one_line

_GAP = "  "


def render(headers: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> str:
    """A table under a double rule, its header over a single one; as wide as its longest cells.

    Args:
        headers: one per column.
        rows: cells as text; a cell stays in its line, whatever it holds.
        right: headers of the columns that are aligned to the right (numbers).
    """
    rows = [[in_one_line(cell) for cell in row] for row in rows]
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    width = sum(widths) + len(_GAP) * (len(widths) - 1)

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(size) if header in right else cell.ljust(size)
            for header, cell, size in zip(headers, cells, widths, strict=True)
        )
        return _GAP.join(aligned).rstrip()

    return "\n".join(["=" * width, line(headers), "-" * width, *(line(row) for row in rows)])
