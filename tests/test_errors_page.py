"""The page of errors: every kind of error and every exit code stands on it, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = {
    cells[1].strip("` "): cells[2:-1] for line in PAGE.splitlines() if (cells := line.split("|"))[1:] and len(cells) > 4
}


def sources() -> Iterator[str]:
    for package in ("engine", "harness"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.read_text(encoding="utf-8")


def test_every_error_has_a_row_with_a_remedy() -> None:
    errors = {name for text in sources() for name in re.findall(r"^class (\w+Error)\(\w", text, re.M)}
    assert errors >= {"ConfigError", "ModelError", "BaselineError"}
    for name in errors - {"PtqlabError"}:
        assert name in ROWS, f"{name}: docs/errors.md has no row"
        assert all(cell.strip() for cell in ROWS[name]), name


def test_every_exit_code_has_a_row() -> None:
    codes = {code for text in sources() for code in re.findall(r"^(?:EXIT_\w+| +exit_code) = (\d+)$", text, re.M)}
    assert codes >= {"1", "14", "255"}
    assert codes <= set(ROWS)
