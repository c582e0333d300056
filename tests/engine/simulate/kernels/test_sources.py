"""How kept code is recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path

import engine.simulate.kernels
from engine.simulate.kernels.sources import sources_digest


def test_the_digest_is_of_all_sources_in_order() -> None:
    (folder,) = map(Path, engine.simulate.kernels.__path__)
    content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    assert sources_digest() == hashlib.sha256(content).hexdigest()
