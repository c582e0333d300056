"""Special functions of scipy, imported when the first of them is called: 0.2 s that most conversions never need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """``1 / (1 + exp(-x))`` in the type of ``x``."""
    from scipy.special import expit

    return np.asarray(expit(x))


def error_function(x: NDArray[Any]) -> NDArray[Any]:
    """``erf(x)`` in the type of ``x``."""
    from scipy.special import erf

    return np.asarray(erf(x))
