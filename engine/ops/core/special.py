"""Special functions of scipy, imported when the first of them is called: 0.2 s that most conversions never need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.deferral import deferring


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """``1 / (1 + exp(-x))`` in the type of ``x``."""
    with deferring():
        from scipy.special import expit

    return np.asarray(expit(x))


def exponential(x: NDArray[Any]) -> NDArray[Any]:
    """``exp(x)`` in the type of ``x``, rounded right: numpy's vectorised float32 is up to two units beside it.

    The original's is that of the C library, as the last line of golden conversion ``i16_exp`` shows.
    """
    return np.exp(x.astype(np.float64)).astype(x.dtype) if x.dtype == np.float32 else np.exp(x)


def error_function(x: NDArray[Any]) -> NDArray[Any]:
    """``erf(x)`` in the type of ``x``."""
    with deferring():
        from scipy.special import erf

    return np.asarray(erf(x))
