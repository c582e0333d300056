"""Import statements of a source file, wherever in it they stand; each file is parsed once per process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Statement(NamedTuple):
    """Attributes:
    module: what is imported from, None for ``import a, b``.
    names: what is imported.
    """

    module: str | None
    names: tuple[str, ...]


@cache
def statements(path: Path) -> tuple[Statement, ...]:
    """Those of the file, relative ones left out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.append(Statement(None, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(Statement(node.module, tuple(alias.name for alias in node.names)))
    return tuple(found)
