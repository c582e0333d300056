"""When two tensors that should be the same are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Difference = Callable[[Array, Array], str | None]
"""Takes what is and what should be; how they differ, or None."""


def float_difference(relative: float) -> Difference:
    """More than float noise: ``relative`` of the largest magnitude."""

    def differs(actual: Array, expected: Array) -> str | None:
        if actual.shape != expected.shape:
            return f"shape {actual.shape} in place of {expected.shape}"
        error = float(np.abs(actual.astype(np.float64) - expected).max(initial=0.0))
        largest = float(np.abs(expected).max(initial=0.0))
        # Written so that a NaN is a difference.
        return _text(actual, expected) if not error <= relative * largest + 1e-7 else None

    return differs


def integer_difference(lsb: float) -> Difference:
    """More than ``lsb`` units; floats are not compared unless that is 0."""

    def differs(actual: Array, expected: Array) -> str | None:
        if np.array_equal(actual, expected, equal_nan=not are_integers(actual, expected)):
            return None
        if lsb and not are_integers(actual, expected):
            return None
        far = actual.shape != expected.shape or np.abs(actual.astype(np.int64) - expected.astype(np.int64)).max() > lsb
        return _text(actual, expected) if not lsb or far else None

    return differs


def are_integers(first: Array, second: Array) -> bool:
    """Whether both are integers of one shape."""
    return first.shape == second.shape and all(np.issubdtype(array.dtype, np.integer) for array in (first, second))


def _text(actual: Array, expected: Array) -> str:
    if actual.shape != expected.shape:
        return f"shape {actual.shape} in place of {expected.shape}"
    error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return f"{float(np.mean(error > 0)):.1%} of the values differ, by at most {float(np.nanmax(error)):.4g}"
