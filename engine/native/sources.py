"""What code that was compiled earlier is recognised by."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

ENGINE = Path(__file__).parents[1]
COMPILED = (
    "jit.py",
    "native/*.py",
    "calibrate/compiled.py",
    "calibrate/statistics/bits.py",
    "calibrate/statistics/divergence.py",
    "calibrate/statistics/loops.py",
    "floats/compiled.py",
    "floats/estimate.py",
    "floats/logarithm.py",
    "floats/multiply_add.py",
    "floats/*_loops.py",
    "floats/rational.py",
    "floats/softmax/exponential.py",
    "floats/softmax/loops.py",
    "simulate/kernels/*.py",
)
"""Files of the engine that decide what is compiled."""


@cache
def sources_digest() -> str:
    """SHA-256 of the sources of all compiled code: kept code is only valid for the same."""
    digest = hashlib.sha256()
    for pattern in COMPILED:
        for path in sorted(ENGINE.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()
