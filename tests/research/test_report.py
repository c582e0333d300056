"""Error tables go into documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from research.report import document


def test_tables_go_between_the_marks_of_a_document(tmp_path: Path) -> None:
    file = tmp_path / "model.md"
    file.write_text("before\n<!-- fit: begin -->\nold\n<!-- fit: end -->\nafter\n")
    document(file, ["first\n", "second"])
    tables = "```text\nfirst\n```\n\n```text\nsecond\n```"
    assert file.read_text() == f"before\n<!-- fit: begin -->\n{tables}\n<!-- fit: end -->\nafter\n"


@pytest.mark.parametrize("text", [None, "no marks", "<!-- fit: end -->", "<!-- fit: begin -->"])
def test_a_document_without_marks_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "model.md"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=r"model\.md"):
        document(file, ["table"])
