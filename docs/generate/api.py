"""Puts whole docstrings in the place of the one-line entries of the pages of Python names, while the site is built."""

import re
from pathlib import Path

import mkdocs_gen_files

ENTRY = re.compile(r"^- `((?:engine|harness)\.[\w.]+)`:.*$", re.MULTILINE)
PAGES = {"reference/api.md": "", "reference/schema.md": "\n    options: {members: false}"}
"""Pages with such entries, and what mkdocstrings is told of each."""

for page, options in PAGES.items():
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    with mkdocs_gen_files.open(page, "w") as file:
        file.write(ENTRY.sub(rf"::: \1{options}", text))
