"""Measures of how far a quantised result is from the float one."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.calibrate.compare import cosine
from engine.errors import ConfigError

Array = NDArray[Any]


class Metric(StrEnum):
    """The measures that every function of the debugger takes."""

    COSINE = "cosine-similarity"
    MSE = "mse"
    MRE = "mre"
    SQNR = "sqnr"
    CHEBYSHEV = "chebyshev"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value means a smaller error."""
        return self in (Metric.COSINE, Metric.SQNR)


def parse_metrics(names: str | list[str] | tuple[str, ...]) -> tuple[Metric, ...]:
    """One name or several to metrics.

    Raises:
        ConfigError: a name is unknown, or none is given.
    """
    names = [names] if isinstance(names, str) else list(names)
    allowed = ", ".join(Metric)
    if not names:
        raise ConfigError(f"no metric is given; allowed are {allowed}")
    unknown = [name for name in names if name not in list(Metric)]
    if unknown:
        raise ConfigError(f"metric {unknown[0]!r} is unknown; allowed are {allowed}")
    return tuple(Metric(name) for name in names)


def measure(metric: Metric, actual: Array, expected: Array) -> float:
    """``metric`` of two arrays of the same size, computed in float64.

    ``cosine-similarity``: cosine of the angle between both; ``mse``: mean of e²; ``mre``: sum of abs(e) over the sum
    of abs(expected); ``sqnr``: 10 log10 of the sum of expected² over that of e², in dB; ``chebyshev``: largest abs(e).
    An error of 0 has an ``sqnr`` of infinity; an error where all of ``expected`` is 0 has an ``mre`` of infinity and
    an ``sqnr`` of minus infinity.
    """
    if metric is Metric.COSINE:
        return cosine(actual, expected)
    wanted = np.asarray(expected, np.float64).reshape(-1)
    error = np.asarray(actual, np.float64).reshape(-1) - wanted
    match metric:
        case Metric.MSE:
            return float(np.mean(error**2)) if error.size else 0.0
        case Metric.MRE:
            return _ratio(float(np.abs(error).sum()), float(np.abs(wanted).sum()))
        case Metric.SQNR:
            noise = _ratio(float(error @ error), float(wanted @ wanted))
            return float(-10 * np.log10(noise)) if noise else float("inf")
        case Metric.CHEBYSHEV:
            return float(np.abs(error).max(initial=0.0))


def _ratio(error: float, signal: float) -> float:
    if not error:
        return 0.0
    return error / signal if signal else float("inf")
