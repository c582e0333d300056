"""JSON texts that carry their own digest, so that later damage is noticed.

``{"a":1}`` becomes ``{"a":1,"sha256":"…"}``. Texts of versions that sealed nothing are taken as they are; a seal that
is damaged itself is an unknown key, which strict readers refuse.
"""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\s*\Z')

DAMAGED = "is damaged: its SHA-256 differs"


def sealed(text: str) -> bytes:
    """``text``, a JSON object that is not empty, with the SHA-256 of it as its last key."""
    if not text.endswith("}"):
        raise ValueError("expected the text of a JSON object")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"sha256":"{digest}"}}'.encode()


def unsealed(data: bytes) -> bytes:
    """What :func:`sealed` was given.

    Raises:
        ValueError: it has changed since.
    """
    seal = _SEAL.search(data)
    if seal is None:
        return data
    text = data[: seal.start()] + b"}"
    if hashlib.sha256(text).hexdigest().encode() != seal[1]:
        raise ValueError(DAMAGED)
    return text
