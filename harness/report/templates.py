"""The templates of pages."""

from __future__ import annotations

from functools import cache

import jinja2

from harness import paths


@cache
def template(name: str) -> jinja2.Template:
    """The template in the file ``name``; what is put in is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.reports() / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
