"""Element-wise float32 functions, compiled, for :mod:`engine.calibrate.forward.own_arithmetic`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]

_BLOCK = 1024
"""Numbers that are computed at a time."""
_NEAR_ZERO = 0.84375
_NEAR_ONE = np.float32(1.7677668)
"""A number whose quotient by the root of 2 is below 1.25, the end of the second function."""
_PP0, _PP1, _PP2 = 1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02
_PP3, _PP4 = -5.77027029648944159157e-03, -2.37630166566501626084e-05
_QQ1, _QQ2, _QQ3 = 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03
_QQ4, _QQ5 = 1.32494738004321644526e-04, -3.96022827877536812320e-06
_ERX = 8.45062911510467529297e-01
_PA0, _PA1, _PA2 = -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01
_PA3, _PA4, _PA5 = 3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02
_PA6 = -2.16637559486879084300e-03
_QA1, _QA2, _QA3 = 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02
_QA4, _QA5, _QA6 = 1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02
"""Coefficients of fdlibm's rational functions, by the names they have there."""


@entry
def swish(source: Floats, result: Floats) -> None:
    """``x * (1 / (1 + exp(-x)))``, every step rounded to float32; arrays of shape (n,)."""
    one = np.float32(1)
    for index in range(source.size):
        x = source[index]
        result[index] = x * (one / (one + np.float32(math.exp(-x))))


@entry
def rsqrt(source: Floats, epsilon: np.float32, result: Floats) -> None:
    """``1 / sqrt(x + epsilon)``: the sum in float32, root and quotient in float64; arrays of shape (n,)."""
    for index in range(source.size):
        result[index] = np.float32(1.0 / math.sqrt(np.float64(source[index] + epsilon)))


@entry
def gelu(source: Floats, result: Floats) -> None:
    """``0.5 x (1 + erf(x / sqrt(2)))`` in float64, rounded once; arrays of shape (n,).

    Up to 1.25, erf is the two rational functions of the C library's, in the same order of operations, which the
    compiler makes vector instructions of; beyond, the C library computes it.
    """
    root = math.sqrt(2.0)
    far = np.empty(_BLOCK, np.int64)
    for start in range(0, source.size, _BLOCK):
        given, found = source[start : start + _BLOCK], result[start : start + _BLOCK]
        for index in range(given.size):
            x = np.float64(given[index])
            low, high = _erf_near_zero(x / root), _erf_near_one(x / root)
            found[index] = np.float32(0.5 * x * (1.0 + (low if abs(x / root) < _NEAR_ZERO else high)))
        count = 0
        for index in range(given.size):
            far[count] = index
            count += not abs(given[index]) < _NEAR_ONE
        for place in far[:count]:
            x = np.float64(given[place])
            found[place] = np.float32(0.5 * x * (1.0 + math.erf(x / root)))


@entry
def _erf_near_zero(x: float) -> float:
    """The error function below :data:`_NEAR_ZERO`, as fdlibm's ``s_erf.c`` has it, in glibc's order of operations."""
    z = x * x
    fourth = z * z
    above = (_PP0 + z * _PP1) + fourth * (_PP2 + z * _PP3) + fourth * fourth * _PP4
    below = (1.0 + z * _QQ1) + fourth * (_QQ2 + z * _QQ3) + fourth * fourth * (_QQ4 + z * _QQ5)
    return x + x * (above / below)


@entry
def _erf_near_one(x: float) -> float:
    """From there to 1.25."""
    s = abs(x) - 1.0
    second = s * s
    fourth = second * second
    sixth = fourth * second
    above = (_PA0 + s * _PA1) + second * (_PA2 + s * _PA3) + fourth * (_PA4 + s * _PA5) + sixth * _PA6
    below = (1.0 + s * _QA1) + second * (_QA2 + s * _QA3) + fourth * (_QA4 + s * _QA5) + sixth * _QA6
    return math.copysign(_ERX + above / below, x)
