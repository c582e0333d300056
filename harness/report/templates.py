"""The templates of pages."""

from __future__ import annotations

from functools import cache

import jinja2

from engine.pages import page_templates
from harness.files import paths


@cache
def template(name: str) -> jinja2.Template:
    """The template in the file ``name``; what is put in is escaped."""
    return page_templates(jinja2.FileSystemLoader(paths.reports() / "templates")).get_template(name)
