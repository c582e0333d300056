"""The pages of the documentation's site: each is in the navigation, and links between pages lead somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

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


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute, None) or import_module(name)


@pytest.mark.parametrize("page", ["reference/api.md", "reference/schema.md"])
def test_pages_of_python_names_can_be_read_without_the_site(page: str) -> None:
    """Each entry is the first line of the docstring; the site has the whole one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert ":::" not in text
    entries = re.findall(r"^- `([\w.]+)`: (.*)$", text, re.MULTILINE)
    assert len(entries) > 5
    for name, line in entries:
        assert line == _named(name).__doc__.strip().splitlines()[0].replace("``", "`"), name
