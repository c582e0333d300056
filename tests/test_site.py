"""The pages of the documentation's site: each is in the navigation, and links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BUILT = frozenset({"reference/cli.md"})
"""Pages that exist only in the built site (``docs/generate``)."""
NAVIGATION = re.findall(r"^ +- [^\n]*?([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(NAVIGATION) == sorted({*BUILT, *(str(page.relative_to(DOCS)) for page in PAGES)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_stay_in_the_site_and_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = []
    for target in targets:
        file = (page.parent / target).resolve()
        inside = file.is_relative_to(DOCS)
        if not inside or not (file.is_file() or str(file.relative_to(DOCS)) in BUILT):
            missing.append(target)
    assert missing == []
