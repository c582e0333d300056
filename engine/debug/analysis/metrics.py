"""Measures of how far a quantised result is from the float one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, hint

Array = NDArray[Any]
Float64 = NDArray[np.float64]

CHUNK = 1 << 15
"""Values that are measured at a time."""


class DistanceMeasure(StrEnum):
    """The measures that every function of the debugger takes."""

    COSINE = "cosine-similarity"
    MSE = "mse"
    MRE = "mre"
    SQNR = "sqnr"
    CHEBYSHEV = "chebyshev"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value means a smaller error."""
        return self in (DistanceMeasure.COSINE, DistanceMeasure.SQNR)


def parse_metrics(names: str | list[str] | tuple[str, ...]) -> tuple[DistanceMeasure, ...]:
    """One name or several to metrics.

    Raises:
        ConfigError: a name is unknown, or none is given.
    """
    allowed = ", ".join(DistanceMeasure)
    if not isinstance(names, (str, list, tuple)):
        raise ConfigError(f"metrics are {names!r}; give a name or a list of names: {allowed}")
    names = [names] if isinstance(names, str) else list(names)
    if not names:
        raise ConfigError(f"no metric is given; allowed are {allowed}")
    unknown = [name for name in names if name not in list(DistanceMeasure)]
    if unknown:
        raise ConfigError(
            f"metric {unknown[0]!r} is unknown; allowed are {allowed}{hint(str(unknown[0]), DistanceMeasure)}"
        )
    return tuple(DistanceMeasure(name) for name in names)


def parse_metric(name: str) -> DistanceMeasure:
    """One name to a metric.

    Raises:
        ConfigError: it is unknown, or not one name.
    """
    found = parse_metrics(name)
    if len(found) != 1:
        raise ConfigError(f"metrics are {name!r}; one of them is needed here")
    return found[0]


@np.errstate(over="ignore", invalid="ignore")
def measure(metric: DistanceMeasure, actual: Array, expected: Array) -> float:
    """``metric`` of two arrays of the same size, computed in float64.

    ``cosine-similarity``: cosine of the angle between both; ``mse``: mean of e²; ``mre``: sum of abs(e) over the sum
    of abs(expected); ``sqnr``: 10 log10 of the sum of expected² over that of e², in dB; ``chebyshev``: largest abs(e).
    An error of 0 has an ``sqnr`` of infinity; an error where all of ``expected`` is 0 has an ``mre`` of infinity and
    an ``sqnr`` of minus infinity. Where a value is NaN or infinite, a figure may be NaN.
    """
    pairs = _chunks(np.asarray(actual).reshape(-1), np.asarray(expected).reshape(-1))
    match metric:
        case DistanceMeasure.COSINE:
            products = [(_dot(found, wanted), _dot(found, found), _dot(wanted, wanted)) for found, wanted in pairs]
            return _cosine(*map(float, np.sum(products, axis=0))) if products else 1.0
        case DistanceMeasure.MSE:
            return sum(_dot(found - wanted, found - wanted) for found, wanted in pairs) / max(np.size(expected), 1)
        case DistanceMeasure.MRE:
            sums = [(np.abs(found - wanted).sum(), np.abs(wanted).sum()) for found, wanted in pairs]
            return _ratio(*map(float, np.sum(sums, axis=0))) if sums else 0.0
        case DistanceMeasure.SQNR:
            powers = [(_dot(found - wanted, found - wanted), _dot(wanted, wanted)) for found, wanted in pairs]
            noise = _ratio(*map(float, np.sum(powers, axis=0))) if powers else 0.0
            return float(-10 * np.log10(noise)) if noise else float("inf")
        case DistanceMeasure.CHEBYSHEV:
            return float(np.max([np.abs(found - wanted).max() for found, wanted in pairs], initial=0.0))


def _chunks(actual: Array, expected: Array) -> Iterator[tuple[Float64, Float64]]:
    """``actual`` and ``expected`` in float64, in pieces that stay in the processor's cache."""
    for start in range(0, expected.size, CHUNK):
        part = slice(start, start + CHUNK)
        yield actual[part].astype(np.float64), expected[part].astype(np.float64)


def _dot(first: Float64, second: Float64) -> float:
    """Sum of products. Not by BLAS, whose threads would wait for one another: variants have one thread each."""
    return float(np.einsum("i,i", first, second))


def _cosine(product: float, first: float, second: float) -> float:
    """Cosine of two vectors from their scalar products; 1 where both are zero, 0 where only one is."""
    if not first or not second:
        return float(first == second)
    return float(product / np.sqrt(first) / np.sqrt(second))


def _ratio(error: float, signal: float) -> float:
    if not error:
        return 0.0
    return error / signal if signal else float("inf")
