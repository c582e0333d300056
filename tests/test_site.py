"""The pages of the documentation's site: each is in the navigation, and links between pages lead somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.translations import TRANSLATIONS

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SETTINGS, _, NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")


def test_every_page_is_in_the_navigation_once() -> None:
    names = re.findall(r"^ +- [^\n]*?([\w/]+\.md)$", NAVIGATION, re.MULTILINE)
    assert sorted(names) == sorted(str(page.relative_to(DOCS)) for page in PAGES if page not in TRANSLATIONS)


def test_every_title_of_the_navigation_has_one_in_chinese() -> None:
    titles = re.findall(r"^ +- (.+?):(?: [\w/]+\.md)?$", NAVIGATION, re.MULTILINE)
    _, _, block = SETTINGS.partition("nav_translations:\n")
    translations = re.findall(r"^ {12}'?(.+?)'?: .+$", block, re.MULTILINE)
    assert len(titles) > 50
    assert translations == list(dict.fromkeys(titles))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_stay_in_the_site_and_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = []
    for target in targets:
        file = (page.parent / target).resolve()
        if not (file.is_relative_to(DOCS) and file.is_file()):
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
