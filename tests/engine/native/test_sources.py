"""How kept code is recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path

import engine
from engine.native.sources import COMPILED, sources_digest
from engine.simulate.kernels.build import LOOPS

(ENGINE,) = map(Path, engine.__path__)


def test_the_digest_is_of_all_sources_in_order() -> None:
    content = b"".join(path.read_bytes() for pattern in COMPILED for path in sorted(ENGINE.glob(pattern)))
    assert sources_digest() == hashlib.sha256(content).hexdigest()


def test_every_loop_and_kernel_is_among_the_sources() -> None:
    files = {path.relative_to(ENGINE.parent) for pattern in COMPILED for path in ENGINE.glob(pattern)}
    assert {Path(*loop.module.split(".")).with_suffix(".py") for loop in LOOPS} <= files
    assert Path("engine/simulate/kernels/convolution.py") in files
