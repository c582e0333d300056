"""The definition of a fused multiply-add."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from engine.floats.fused import fused


def test_a_fused_multiply_add_rounds_once() -> None:
    """Among them sums that lie next to the middle of two float32, where rounding twice goes wrong."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(2000).astype(np.float32) for _ in range(2))
    c = (np.exp2(rng.integers(-40, 40, 2000)) * rng.choice([-1, 1], 2000)).astype(np.float32)
    a[:500], b[:500] = 1 + 2.0**-12, 1 + 2.0**-12
    for x, y, z, found in zip(a, b, c, fused(a, b, c), strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [np.nextafter(found, np.float32(side)) for side in (-np.inf, np.inf)]
        distance = abs(Fraction(float(found)) - exact)
        assert all(distance <= abs(Fraction(float(other)) - exact) for other in near)
