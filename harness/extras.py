"""Optional packages of ptqlab, and the command that installs them."""

from __future__ import annotations

import re
from importlib import metadata

_OF_EXTRA = re.compile(r"(?P<requirement>[^;]+);.*\bextra\s*==\s*['\"](?P<extra>[\w-]+)['\"]")


def how_to_install(extra: str) -> str:
    """The command for what ``extra`` of ptqlab needs, package by package: ptqlab itself is on no package index."""
    try:
        declared = metadata.requires("ptqlab") or []
    except metadata.PackageNotFoundError:
        declared = []
    found = [match for text in declared if (match := _OF_EXTRA.match(text))]
    needed = [match["requirement"].strip() for match in found if match["extra"] == extra]
    if not needed:
        return f"pip install '.[{extra}]' in a checkout of ptqlab"
    return f"pip install {' '.join(repr(requirement) for requirement in needed)}"
