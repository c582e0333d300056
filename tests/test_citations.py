"""What sources and pages cite is in the repository."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CITED = re.compile(r"\b(?:docs/)?((?:reference/|howto/|evidence/|agreement/|latency/)*[\w-]+(?:\.zh)?\.md)\b")
FOLDERS = ("engine", "harness", "research", "docs", "suites", "datasets")
RESULTS = frozenset({"summary.md"})
"""Files that runs write."""
ELSEWHERE = frozenset({"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"})


def test_every_page_that_is_cited_exists() -> None:
    suffixes = (".py", ".md", ".yaml")
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    cited = {(name, path) for path in files for name in CITED.findall(path.read_text(encoding="utf-8"))}
    assert len(cited) > 100
    missing = sorted(
        f"{path.relative_to(ROOT)} cites {name}"
        for name, path in cited
        if name not in (*ELSEWHERE, *RESULTS)
        and not (ROOT / "docs" / name).is_file()
        and not any((folder / name).is_file() for folder in (path.parent, path.parent.parent))
    )
    assert missing == []


def test_sections_that_are_cited_exist() -> None:
    """``reference/arithmetic.md 2.3`` names a section of that page."""
    missing = []
    for path in [path for folder in ("engine", "harness", "research") for path in (ROOT / folder).rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        for page, section in re.findall(r"reference/(\w+)\.md,? (\d(?:\.\d+)?)\b", text):
            content = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
            pattern = rf"^(#+ |\*\*){re.escape(section)}[ .]" if "." in section else rf"^## {section} "
            major = section.split(".")[0]
            numbered = re.search(pattern, content, re.MULTILINE) or (
                major == "4" and re.search(rf"^{section.split('.')[-1]}\. ", content, re.MULTILINE)
            )
            if not numbered:
                missing.append(f"{path.relative_to(ROOT)}: {page} {section}")
    assert missing == []
