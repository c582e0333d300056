"""Pages in Chinese, and which version of the English page each translates.

Usage: python -m tests.translations PAGE.zh.md...

Writes into each page that it translates the English page as this is now. The last line of a page holds git's name of
that version (its blob), so that ``git diff BLOB PAGE.md`` shows what has changed since.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRANSLATIONS = sorted([*ROOT.glob("*.zh.md"), *(ROOT / "docs").rglob("*.zh.md")])
SOURCE = re.compile(r"^<!-- source: ([0-9a-f]{40}) -->\n\Z", re.MULTILINE)


def original(page: Path) -> Path:
    """The English page that a page translates."""
    return page.with_name(page.name.removesuffix(".zh.md") + ".md")


def blob(page: Path) -> str:
    """Git's name of the content of a file."""
    content = page.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def translated(page: Path) -> str | None:
    """Git's name of the version of the English page that a page says it translates."""
    found = SOURCE.search(page.read_text(encoding="utf-8"))
    return found and found[1]


def advice(page: Path) -> str | None:
    """What to do where the English page has changed since; None where it has not."""
    before, english = translated(page), original(page)
    if before == blob(english):
        return None
    here, there = page.relative_to(ROOT), english.relative_to(ROOT)
    shows = f"git diff {before} {there}" if before else f"git log -p {there}"
    return (
        f"{there} has changed since {here} was translated. Translate what\n    {shows}\nshows, and then run\n"
        f"    python -m tests.translations {here}"
    )


def renew(page: Path) -> None:
    """Write into a page that it translates the English page as this is now."""
    text = SOURCE.sub("", page.read_text(encoding="utf-8")).rstrip("\n")
    page.write_text(f"{text}\n\n<!-- source: {blob(original(page))} -->\n", encoding="utf-8")


if __name__ == "__main__":
    known = {str(page.relative_to(ROOT)): page for page in TRANSLATIONS}
    if not sys.argv[1:] or set(sys.argv[1:]) - set(known):
        sys.exit(f"usage: python -m tests.translations PAGE...; pages: {', '.join(known)}")
    for name in sys.argv[1:]:
        renew(known[name])
