"""Tanh and the logistic function as quotients of polynomials: the numbers of the original's runtime.

Its LSTM and GRU take arguments of Tanh up to :data:`GRU_LIMIT`, and round a product and the sum that takes it each. The
operator ``Tanh`` is ONNX Runtime's: up to 9, rounded once, and beyond 1 by up to 2e-7 from 7.9 on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

GRU_LIMIT = np.float32(10)
"""Arguments of a greater magnitude count as these."""
TANH_ABOVE = tuple(
    np.float32(factor)
    for factor in (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    )
)
"""Of the odd polynomial above the line, the highest power first."""
TANH_BELOW = tuple(
    np.float32(factor)
    for factor in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
)
HALF, ONE = np.float32(0.5), np.float32(1)


def tanh_of_cells(x: Floats) -> Floats:
    """The hyperbolic tangent of LSTM and GRU."""
    above, below = parts_of_tanh(x)
    return above / below


def parts_of_tanh(x: Floats) -> tuple[Floats, Floats]:
    """What :func:`tanh_of_cells` divides, and by what."""
    x = np.clip(x, -GRU_LIMIT, GRU_LIMIT)
    square = x * x
    return _rounded_polynomial(square, TANH_ABOVE) * x, _rounded_polynomial(square, TANH_BELOW)


def logistic_of_cells(x: Floats) -> Floats:
    """The logistic function of LSTM and GRU."""
    return HALF * (ONE + tanh_of_cells(HALF * x))


def _rounded_polynomial(square: Floats, factors: tuple[np.float32, ...]) -> Floats:
    total = np.full_like(square, factors[0])
    for factor in factors[1:]:
        total = total * square + factor
    return total
