"""``docs/rules.md`` is what the rulebook says."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.rulebook.book import RULES
from engine.rulebook.page import page_with_rules, rules_page, write_pages

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("name", ["rules.md", "placement.md", "calibration.md", "optimisation.md"])
def test_the_pages_are_up_to_date(name: str, tmp_path: Path) -> None:
    """``ptqlab rules --docs docs`` writes them anew."""
    (tmp_path / name).write_bytes((DOCS / name).read_bytes())
    write_pages(tmp_path)
    assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()


def test_every_rule_is_in_the_table_of_one_room() -> None:
    pages = [
        (DOCS / name).read_text(encoding="utf-8") for name in ("placement.md", "calibration.md", "optimisation.md")
    ]
    rows = [line.split("`")[1] for page in pages for line in page.splitlines() if line.startswith("| `")]
    assert sorted(row for row in rows if row in RULES) == sorted(RULES)


def test_only_what_is_between_the_marks_is_written() -> None:
    text = "before\n<!-- rules: arithmetic -->\nout of date\n<!-- end of rules -->\nafter\n"
    found = page_with_rules(text)
    assert found.startswith("before\n<!-- rules: arithmetic -->\n| rule |")
    assert found.endswith("|\n<!-- end of rules -->\nafter\n")
    assert "out of date" not in found
    assert page_with_rules(found) == found
    assert page_with_rules("no marks\n") == "no marks\n"


def test_the_page_has_a_row_for_every_rule() -> None:
    rows = [line for line in rules_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(RULES)
    assert all(line.count(" | ") == 5 for line in rows)
