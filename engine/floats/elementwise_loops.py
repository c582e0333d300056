"""Element-wise float32 functions, compiled, for :mod:`engine.floats.own_arithmetic`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.floats.compiled import ELEMENTWISE_BLOCK
from engine.floats.estimate import reciprocal_root
from engine.floats.logarithm import eigens_logarithm
from engine.floats.softmax.exponential import ONE
from engine.floats.softmax.loops import exponentials
from engine.jit import compiled, entry, fusing_entry

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

_END, _DEGREE = 2.5, 20
"""The error function up to here is a polynomial of the square, times the number itself."""
_MIDDLE = _END**2 / 2
_MARGIN = 2.0**-44
"""More than the error function by polynomial, and by C libraries, is off by: 2^-47."""


def _coefficients() -> tuple[float, ...]:
    """Of ``erf(x) / x`` by powers of ``x^2 - _MIDDLE``, the highest first: interpolated in Chebyshev's points."""
    points = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    quotients = [math.erf(x) / x for x in np.sqrt((points + 1) * _MIDDLE).tolist()]
    series = np.polynomial.chebyshev.chebfit(points, quotients, _DEGREE)
    return tuple((np.polynomial.chebyshev.cheb2poly(series) / _MIDDLE ** np.arange(_DEGREE + 1))[::-1].tolist())


_C = _coefficients()


_LOG2_E, _LN2 = 1 / math.log(2), math.log(2)
_ROUNDER = 1.5 * 2.0**52
"""A float64 to which this was added has its integer part in the last bits."""
_BIAS, _FRACTION = 1023, 52
"""Bias of the exponent of a float64, and number of bits below the exponent."""
_EXP_MARGIN = 2.0**-30
"""More than the exponential by polynomial (2^-31.7) and those of C libraries before they round (glibc 2^-33) are off by
together."""
_EXP_END = 80.0
"""Magnitudes up to which exponentials are normal numbers of float32."""
_E = tuple(1 / math.factorial(power) for power in range(8, -1, -1))


_FOURS = 4
_LEAST_NORMAL = 2.0**-126
_HIGHEST = np.float32(88.3762626647950)
"""Exponents above it count as it in vectors."""


@entry
def swish(source: Floats, unsure: Places, result: Floats) -> None:
    """``x * (1 / (1 + exp(-x)))``, every step rounded to float32, the exponential the C library's; arrays (n,).

    A polynomial bounds the exponential, as that of :func:`gelu`; where that does not tell, the C library is asked.
    ``unsure`` has room for ``ELEMENTWISE_BLOCK`` places.
    """
    one = np.float32(1)
    for start in range(0, source.size, ELEMENTWISE_BLOCK):
        given, found = source[start : start + ELEMENTWISE_BLOCK], result[start : start + ELEMENTWISE_BLOCK]
        _swish_where_sure(given, found)
        count = 0
        for index in range(given.size):
            unsure[count] = index
            count += found[index] != found[index]
        for place in unsure[:count]:
            x = given[place]
            found[place] = x * (one / (one + np.float32(math.exp(-x))))


@fusing_entry
def _swish_where_sure(source: Floats, result: Floats) -> None:
    """NaN where the polynomial does not tell; arrays of shape (n,)."""
    one = np.float32(1)
    for index in range(source.size):
        x = source[index]
        y = -np.float64(min(max(x, np.float32(-_EXP_END)), np.float32(_EXP_END)))
        shifted = y * _LOG2_E + _ROUNDER
        power = shifted - _ROUNDER
        z = y - power * _LN2
        value = _E[0]
        value = value * z + _E[1]
        value = value * z + _E[2]
        value = value * z + _E[3]
        value = value * z + _E[4]
        value = value * z + _E[5]
        value = value * z + _E[6]
        value = value * z + _E[7]
        value = value * z + _E[8]
        value *= np.int64((np.int64(power) + _BIAS) << _FRACTION).view(np.float64)
        low, high = np.float32(value * (1.0 - _EXP_MARGIN)), np.float32(value * (1.0 + _EXP_MARGIN))
        sure = low == high and abs(x) < np.float32(_EXP_END)
        result[index] = x * (one / (one + low)) if sure else np.float32(np.nan)


@entry
def exponential(source: Floats, result: Floats) -> None:
    """``exp(x)``: in fours by Eigen's polynomial, what is left over of fours by the C library; arrays (n,).

    3,007 numbers of the original's runtime, infinities among them, have these bits.
    """
    fours = source.size - source.size % _FOURS
    _eigens_exponential(source[:fours], result[:fours])
    for k in range(fours, source.size):
        result[k] = np.float32(math.exp(source[k]))


@compiled
def _eigens_exponential(source: Floats, result: Floats) -> None:
    for start in range(0, source.size, ELEMENTWISE_BLOCK):
        given, found = source[start : start + ELEMENTWISE_BLOCK], result[start : start + ELEMENTWISE_BLOCK]
        for k in range(given.size):
            found[k] = _HIGHEST if given[k] > _HIGHEST else given[k]
        exponentials(found, np.float32(0), found)


@entry
def logarithm(source: Floats, result: Floats) -> None:
    """``ln(x)``: in fours by Eigen's polynomial, what is left over of fours by the C library; arrays (n,).

    4,099 numbers of the original's runtime have these bits, as have zeros, infinities and what is no number.
    """
    fours = source.size - source.size % _FOURS
    for k in range(fours):
        result[k] = eigens_logarithm(source[k])
    for k in range(fours, source.size):
        result[k] = np.float32(math.log(source[k]))


@entry
def softplus(source: Floats, result: Floats) -> None:
    """``ln(1 + exp(x))``, with ``x + ln(1 + exp(-x))`` for numbers above 0, by the C library; arrays (n,)."""
    for k in range(source.size):
        x = source[k]
        power = np.float32(math.exp(-x if x > np.float32(0) else x))
        value = np.float32(math.log(power + ONE))
        result[k] = x + value if x > np.float32(0) else value


@entry
def elu(source: Floats, alpha: np.float32, result: Floats) -> None:
    """``x``, or ``alpha (exp(x) - 1)`` below 0, by the C library; arrays (n,)."""
    for k in range(source.size):
        x = source[k]
        result[k] = x if x >= np.float32(0) else alpha * (np.float32(math.exp(x)) - ONE)


@entry
def selu(source: Floats, factors: Floats, result: Floats) -> None:
    """``gamma (max(x, 0) + min(alpha (exp(x) - 1), 0))``, with the exponential of :func:`exponential`.

    Args:
        source: shape (n,).
        factors: alpha and gamma.
        result: shape (n,).
    """
    alpha, gamma, zero = factors[0], factors[1], np.float32(0)
    fours = source.size - source.size % _FOURS
    _eigens_exponential(source[:fours], result[:fours])
    for k in range(fours, source.size):
        result[k] = np.float32(math.exp(source[k]))
    for k in range(source.size):
        x = source[k]
        low = alpha * (result[k] - ONE)
        result[k] = gamma * ((zero if x < zero else x) + (zero if low > zero else low))


@entry
def mish(source: Floats, result: Floats) -> None:
    """``x tanh(ln(1 + exp(x)))`` by exponentials of the C library; ``x`` where they overflow; arrays (n,).

    The logarithm is taken in float64 and rounded: 7,041 of 7,041 numbers of the original's runtime have these bits.
    Where exponentials overflow it has NaN, which the rule ``method.mish-overflow`` says of thresholds.
    """
    for k in range(source.size):
        x = source[k]
        value = np.float32(math.log(np.float64(ONE + np.float32(math.exp(x)))))
        above, below = np.float32(math.exp(value)), np.float32(math.exp(-value))
        result[k] = x * ((above - below) / (above + below)) if above < np.float32(np.inf) else x


@entry
def root(source: Floats, result: Floats) -> None:
    """Square roots as the original's runtime computes them; arrays (n,).

    In fours, a step of Newton's from the CPU's estimate of the reciprocal root, which is off by one in the last bit for
    two of five numbers, and 0 for what is no normal number; what is left over of fours is exact. So an infinity gives
    NaN and a small negative number an infinity, as in the original (16 special values asked at 2 places each).
    """
    half, three_halves, normal = np.float32(0.5), np.float32(1.5), np.float32(_LEAST_NORMAL)
    fours = source.size - source.size % _FOURS
    for k in range(fours):
        x = source[k]
        y = reciprocal_root(x)
        y = y * (three_halves - (half * x) * (y * y))
        result[k] = np.float32(0) if np.float32(0) <= x < normal else x * y
    for k in range(fours, source.size):
        result[k] = np.sqrt(source[k])


@entry
def rsqrt(source: Floats, added: Floats, result: Floats) -> None:
    """``1 / (sqrt(x + a) + b)``: the first sum in float32, the rest in float64; (n,), ``added`` (a, b)."""
    inside, outside = added[0], np.float64(added[1])
    for index in range(source.size):
        result[index] = np.float32(1.0 / (math.sqrt(np.float64(source[index] + inside)) + outside))


@entry
def gelu(source: Floats, unsure: Places, result: Floats) -> None:
    """``0.5 x (1 + erf(x / sqrt(2)))`` in float64, erf being the C library's, rounded once; arrays of shape (n,).

    A polynomial, of which the compiler makes vector instructions, bounds the result. Where both bounds are rounded to
    the same number, that is the result; elsewhere the C library is asked. ``unsure`` has room for
    ``ELEMENTWISE_BLOCK`` places.
    """
    for start in range(0, source.size, ELEMENTWISE_BLOCK):
        given, found = source[start : start + ELEMENTWISE_BLOCK], result[start : start + ELEMENTWISE_BLOCK]
        _gelu_where_sure(given, found)
        count = 0
        for index in range(given.size):
            unsure[count] = index
            count += found[index] != found[index]
        for place in unsure[:count]:
            x = np.float64(given[place])
            found[place] = np.float32(0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))))


@fusing_entry
def _gelu_where_sure(source: Floats, result: Floats) -> None:
    """NaN where the polynomial does not tell; arrays of shape (n,)."""
    for index in range(source.size):
        x = np.float64(source[index])
        half = 0.5 * x
        x *= math.sqrt(0.5)
        z = x * x - _MIDDLE
        value = _C[0]
        value = value * z + _C[1]
        value = value * z + _C[2]
        value = value * z + _C[3]
        value = value * z + _C[4]
        value = value * z + _C[5]
        value = value * z + _C[6]
        value = value * z + _C[7]
        value = value * z + _C[8]
        value = value * z + _C[9]
        value = value * z + _C[10]
        value = value * z + _C[11]
        value = value * z + _C[12]
        value = value * z + _C[13]
        value = value * z + _C[14]
        value = value * z + _C[15]
        value = value * z + _C[16]
        value = value * z + _C[17]
        value = value * z + _C[18]
        value = value * z + _C[19]
        value = value * z + _C[20]
        value *= x
        low, high = np.float32(half * (1.0 + (value - _MARGIN))), np.float32(half * (1.0 + (value + _MARGIN)))
        result[index] = low if low == high and abs(x) < _END else np.float32(np.nan)
