"""The page of errors, in both languages: every kind of error and every exit code stands on it, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

BY_LANGUAGE = pytest.mark.parametrize("page", ["errors.md", "errors.zh.md"])


def rows(page: str) -> dict[str, list[str]]:
    """Rows of the tables of a page: the first cell, and the others."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    cells = [line.split("|") for line in lines]
    return {row[1].strip("` "): row[2:-1] for row in cells if len(row) > 4}


def sources() -> Iterator[str]:
    for package in ("engine", "harness"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.read_text(encoding="utf-8")


@BY_LANGUAGE
def test_every_error_has_a_row_with_a_remedy(page: str) -> None:
    errors = {name for text in sources() for name in re.findall(r"^class (\w+Error)\(\w", text, re.M)}
    assert errors >= {"ConfigError", "ModelError", "BaselineError"}
    found = rows(page)
    for name in errors - {"PtqlabError"}:
        assert name in found, f"{name}: docs/{page} has no row"
        assert all(cell.strip() for cell in found[name]), name


@BY_LANGUAGE
def test_every_exit_code_has_a_row(page: str) -> None:
    codes = {code for text in sources() for code in re.findall(r"^(?:EXIT_\w+| +exit_code) = (\d+)$", text, re.M)}
    assert codes >= {"1", "14", "255"}
    assert codes <= set(rows(page))
