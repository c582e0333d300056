"""``docs/rules.md`` is what the rulebook says."""

from __future__ import annotations

from pathlib import Path

from engine.rulebook.book import RULES
from engine.rulebook.page import rules_page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rules.md"


def test_the_page_is_up_to_date() -> None:
    """``ptqlab rules --markdown > docs/rules.md`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == rules_page()


def test_the_page_has_a_row_for_every_rule() -> None:
    rows = [line for line in rules_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(RULES)
    assert all(line.count(" | ") == 5 for line in rows)
