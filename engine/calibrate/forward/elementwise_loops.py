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
