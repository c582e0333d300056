"""What code that was compiled earlier is recognised by."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def sources_digest() -> str:
    """SHA-256 of the sources of all kernels: kept code is only valid for the same."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
