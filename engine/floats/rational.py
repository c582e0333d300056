"""Tanh and the logistic function as quotients of polynomials: ONNX Runtime's own numbers.

ONNX Runtime has two forms of Tanh. Its vectors take arguments up to :data:`LIMIT` and round a product and the sum that
takes it once (onnxruntime/core/mlas/lib/tanh.cpp, logistic.cpp). Its GRU takes arguments up to :data:`GRU_LIMIT` and
rounds both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.floats.fused import fused

Floats = NDArray[np.float32]

LIMIT, GRU_LIMIT, LOGISTIC_LIMIT = np.float32(9), np.float32(10), np.float32(18)
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
LOGISTIC_ABOVE = tuple(
    np.float32(factor)
    for factor in (
        4.37031012579801e-11,
        1.15627324459942e-07,
        6.08574864600143e-05,
        8.51377133304701e-03,
        2.48287947061529e-01,
    )
)
LOGISTIC_BELOW = tuple(
    np.float32(factor)
    for factor in (
        6.10247389755681e-13,
        5.76102136993427e-09,
        6.29106785017040e-06,
        1.70198817374094e-03,
        1.16817656904453e-01,
        9.93151921023180e-01,
    )
)
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


def logistic(x: Floats) -> Floats:
    """``1 / (1 + exp(-x))``, within a few units of the last place."""
    x = np.clip(x, -LOGISTIC_LIMIT, LOGISTIC_LIMIT)
    square = x * x
    result = _fused_polynomial(square, LOGISTIC_ABOVE) * x / _fused_polynomial(square, LOGISTIC_BELOW) + HALF
    return np.asarray(np.clip(result, ZERO, ONE))


def tanh(x: Floats) -> Floats:
    """The hyperbolic tangent of ONNX Runtime's vectors; its magnitude passes 1 by up to 2e-7."""
    x = np.clip(x, -LIMIT, LIMIT)
    square = x * x
    return _fused_polynomial(square, TANH_ABOVE) * x / _fused_polynomial(square, TANH_BELOW)


def gru_tanh(x: Floats) -> Floats:
    """The hyperbolic tangent of ONNX Runtime's GRU."""
    x = np.clip(x, -GRU_LIMIT, GRU_LIMIT)
    square = x * x
    return _rounded_polynomial(square, TANH_ABOVE) * x / _rounded_polynomial(square, TANH_BELOW)


def gru_logistic(x: Floats) -> Floats:
    """The logistic function of the reset gate of ONNX Runtime's GRU."""
    return HALF * (ONE + gru_tanh(HALF * x))


def _fused_polynomial(square: Floats, factors: tuple[np.float32, ...]) -> Floats:
    total = np.full_like(square, factors[0])
    for factor in factors[1:]:
        total = fused(total, square, factor)
    return total


def _rounded_polynomial(square: Floats, factors: tuple[np.float32, ...]) -> Floats:
    total = np.full_like(square, factors[0])
    for factor in factors[1:]:
        total = total * square + factor
    return total
