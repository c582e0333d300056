"""Files below the user's cache folder: dear to make, cheap to lose. Where there is no such folder nothing is kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def user_cache(name: str) -> Path | None:
    """``$XDG_CACHE_HOME/ptqlab/<name>``, or below ``~/.cache``; None for a user without a home.

    Source: XDG Base Directory Specification 0.8.
    """
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "ptqlab" / name


def read_kept(name: str) -> bytes | None:
    """The content of the file ``name``; None where it is not kept or cannot be read."""
    path = user_cache(name)
    try:
        return path.read_bytes() if path is not None else None
    except OSError:
        return None


def write_kept(name: str, data: bytes) -> None:
    """Write ``data`` as the file ``name``, whole or not at all; a cache that cannot be written is done without."""
    path = user_cache(name)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            fresh = Path(folder) / path.name
            fresh.write_bytes(data)
            fresh.replace(path)
    except OSError:
        return
