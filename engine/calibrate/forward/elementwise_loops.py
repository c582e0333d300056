"""Element-wise float32 functions, compiled, for :mod:`engine.calibrate.forward.own_arithmetic`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.jit import entry

Floats = NDArray[np.float32]


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
    """``0.5 x (1 + erf(x / sqrt(2)))`` in float64, rounded once; arrays of shape (n,)."""
    root = math.sqrt(2.0)
    for index in range(source.size):
        x = np.float64(source[index])
        result[index] = np.float32(0.5 * x * (1.0 + math.erf(x / root)))
