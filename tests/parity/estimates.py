"""Whether this CPU estimates reciprocal roots as the one does on which recorded cases were made."""

from __future__ import annotations

from functools import cache

import numba
import numpy as np

from engine.floats.estimate import ESTIMATES, make_reciprocal_root

RECORDED = np.float32(1 - 2.0**-12)
"""The estimate of 1 of Intel's CPUs; that of AMD's is nearer."""


@cache
def are_recorded_ones() -> bool:
    """Whether roots that begin with an estimate have the recorded bits here."""
    root = make_reciprocal_root(native=True) if ESTIMATES else None
    if root is None:
        return False

    @numba.njit
    def estimate(x: float) -> float:
        return root(x)

    return bool(np.float32(estimate(np.float32(1))) == RECORDED)
