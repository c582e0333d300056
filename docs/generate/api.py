"""Hook of mkdocs that puts whole docstrings in the place of the one-line entries of the pages of Python names."""

import re
from typing import Any

ENTRY = re.compile(r"^- `((?:engine|harness)\.[\w.]+)`:.*$", re.MULTILINE)
PAGES = {"reference/api.md": "", "reference/schema.md": "\n    options: {members: false}"}
"""Pages with such entries, and what mkdocstrings is told of each."""


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The text of a page of the site."""
    options = PAGES.get(page.file.src_uri)
    return markdown if options is None else ENTRY.sub(rf"::: \1{options}", markdown)
