"""Pages in Chinese say all that the English pages say, of which each names the version that it translates."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.translations import ROOT, TRANSLATIONS, advice, blob, original, renew, translated

BY_PAGE = pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: str(page.relative_to(ROOT)))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|(?<=\A))(?: {4}.*\n)+")


def _bare(text: str) -> str:
    """Text without code and without the targets of links."""
    without = re.sub(r"`[^`\n]+`", "", INDENTED.sub("", FENCED.sub("", text)))
    return re.sub(r"\]\([^)]*\)|<!--.*?-->", "", without)


def parts(text: str) -> dict[str, list[str]]:
    """What a translation has in common with the page that it translates."""
    prose = INDENTED.sub("", FENCED.sub("", text))
    blocks = [block for pattern in (FENCED, INDENTED) for block in pattern.findall(text)]
    return {
        "headings": re.findall(r"^#+(?= )", prose, re.MULTILINE),
        "blocks of code, without comments": [re.sub(r" +# .*", "", block) for block in blocks],
        "code in the text": sorted(re.findall(r"`[^`\n]+`", prose)),
        "rows of tables, by cells": [
            str(len(re.findall(r"(?<!\\)\|", line))) for line in prose.splitlines() if line.startswith("|")
        ],
        "items of lists": re.findall(r"^(?:\*|-|\d+\.) ", prose, re.MULTILINE),
        "links": sorted(target.replace(".zh.md", ".md") for target in re.findall(r"\]\(([^)#\s]+)", prose)),
        "numbers": sorted(re.findall(r"\d+(?:[.,]\d+)*", _bare(text))),
    }


def test_the_pages_that_owners_of_boards_begin_with_are_translated() -> None:
    names = {str(original(page).relative_to(ROOT)) for page in TRANSLATIONS}
    pages = ("index", "tutorial", "own_network", "howto/ship", "errors")
    assert names >= {"README.md", *(f"docs/{page}.md" for page in pages)}


@BY_PAGE
def test_the_english_page_is_the_one_that_was_translated(page: Path) -> None:
    assert advice(page) is None, f"\n{advice(page)}"


@BY_PAGE
def test_nothing_is_left_out(page: Path) -> None:
    chinese, english = (parts(file.read_text(encoding="utf-8")) for file in (page, original(page)))
    for what in english:
        assert chinese[what] == english[what], what


@BY_PAGE
def test_links_lead_to_pages_in_chinese_where_there_are_any(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+\.md)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve()
        assert file.is_file(), target
        assert file in TRANSLATIONS or file == original(page) or not file.with_suffix(".zh.md").exists(), target


def test_a_page_left_out_of_a_translation_is_noticed() -> None:
    english = "# A\n\nUse `x` 3 times ([b](b.md)).\n\n    ptqlab run  # go\n\n| a | b |\n"
    chinese = "# 甲\n\n使用 `x` 3 次（[乙](b.zh.md)）。\n\n    ptqlab run  # 开始\n\n| 甲 | 乙 |\n"
    assert parts(chinese) == parts(english)
    changes = [
        ("`x`", "x"),
        ("3", "三"),
        ("b.zh.md", "c.zh.md"),
        ("ptqlab run", "ptqlab ls"),
        ("| 乙 ", ""),
        ("# 甲\n", ""),
    ]
    assert [parts(chinese.replace(old, new)) == parts(english) for old, new in changes] == [False] * len(changes)


def test_a_change_of_the_english_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.translations.ROOT", tmp_path)
    english, chinese = tmp_path / "a.md", tmp_path / "a.zh.md"
    english.write_text("# A\n", encoding="utf-8")
    chinese.write_text("# 甲\n", encoding="utf-8")
    assert translated(chinese) is None
    assert "git log -p a.md" in str(advice(chinese))
    renew(chinese)
    renew(chinese)
    assert chinese.read_text(encoding="utf-8") == f"# 甲\n\n<!-- source: {blob(english)} -->\n"
    assert advice(chinese) is None
    before = blob(english)
    english.write_text("# B\n", encoding="utf-8")
    assert f"git diff {before} a.md\n" in str(advice(chinese))
    assert str(advice(chinese)).endswith("python -m tests.translations a.zh.md")


def test_the_name_of_a_version_is_the_one_that_git_gives_it(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("# 甲\n", encoding="utf-8")
    command = ["git", "hash-object", "--no-filters", str(file)]
    assert blob(file) == subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
