"""The first step of the fit: memory sizes and constants, from rows of single layers, stacks and known networks.

The memory sizes are those of a grid that reproduce the measured DDR traffic best; the constants of
:class:`~engine.chips.latency.fitted.Fitted` minimise a robust loss of ``log(estimated / measured)`` of latencies and,
with less weight, of computing times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from scipy.optimize import least_squares

from engine.chips.latency import Latency
from engine.chips.latency.fitted import Fitted
from research.cases import Floats, MeasuredCase, Networks, cases_of, ddr_errors

_MEMORY_GRID = tuple(
    kilobytes << 10 for kilobytes in (32, 48, 64, 96, 128, 256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096)
)
_MEMORY_PRIOR_WEIGHT = 0.002
"""Pull of a memory size towards its start per doubling: it decides among sizes that the rows do not tell apart."""
_LOSS_SCALE = 0.05
"""Relative error beyond which a row pulls with constant force."""
_NETWORK_WEIGHT = 4.0
"""Weight of whole networks against single layers and stacks: they stand for many layers."""
_PRIOR_WEIGHT = 0.02
"""Pull of a constant towards its start, so that those which no row determines stay there."""
_MEASURED = {"load_gbps": 1.0, "store_gbps": 1.0, "depthwise_rate": 0.2, "begin_us": 1.0, "ahead_bytes": 1.0}
"""The same for constants that were measured by themselves (reference/latency.md)."""
_TOLERANCE = 1e-3
"""Relative gain of a step at which the fit ends: errors change by less than a hundredth of a percent from there on."""
_SHARES = frozenset({"drain_exposed", "drain_apart"})
"""Constants that cannot exceed one."""
_WALK = 10.0
"""Constants stay within this factor of their start."""
LEAST_COMPUTE_US = 5.0
"""Rows that compute less are too coarse to fit rates to: times are whole microseconds."""

_COMPUTE_WEIGHT = 0.3
"""Weight of an error in computing time relative to one in latency."""

_COMMON = {
    "int16_factor": 2.5,
    "int16_rate": 4,
    "row_ns": 1.6,
    "matrix_us": 1.7,
    "sync_us": 100.0,
    "drain_exposed": 0.5,
    "drain_apart": 0.5,
    "pipeline_power": 1.2,
}
START: Mapping[str, Mapping[str, float]] = {
    "bayes-e": _COMMON
    | {"mac_rate": 2048, "depthwise_rate": 310, "activation_rate": 36, "elementwise_rate": 25, "multiply_rate": 12}
    | {
        "pool_rate": 60,
        "window_rate": 100,
        "resize_rate": 10.5,
        "wide_rate": 9,
        "input_rate": 40,
        "load_gbps": 7.45,
        "store_gbps": 7.7,
    }
    | {"fixed_us": 4, "layer_us": 1.33, "pipeline_bytes": 2e6, "wide_row_ns": 1.6},
    "bayes": _COMMON
    | {"mac_rate": 9900, "depthwise_rate": 1000, "activation_rate": 150, "elementwise_rate": 80, "multiply_rate": 40}
    | {
        "pool_rate": 190,
        "window_rate": 300,
        "resize_rate": 50,
        "wide_rate": 28,
        "input_rate": 120,
        "load_gbps": 8.85,
        "store_gbps": 9,
    }
    | {"fixed_us": 3.2, "layer_us": 1.06, "pipeline_bytes": 5e6, "wide_row_ns": 1.6},
    "bernoulli2": _COMMON
    | {"mac_rate": 256, "depthwise_rate": 258, "activation_rate": 40, "elementwise_rate": 20, "multiply_rate": 0.128}
    | {
        "pool_rate": 77,
        "window_rate": 1.0,
        "resize_rate": 10,
        "wide_rate": 0.286,
        "input_rate": 1.5,
        "load_gbps": 9.7,
        "store_gbps": 9,
    }
    | {"fixed_us": 15, "layer_us": 0.54, "pipeline_bytes": 5e6, "begin_us": 0.3, "ahead_bytes": 1 << 18},
}
"""Where the fit of constants starts: figures of reference/latency.md; its result does not depend on what the
data files hold.
"""

MEMORY_START: Mapping[str, Mapping[str, int]] = {
    "bayes-e": {"group_bytes": 1 << 20, "map_bytes": 1 << 20, "unfused_bytes": 1 << 19},
    "bayes": {"group_bytes": 3 << 20, "map_bytes": 3 << 20, "unfused_bytes": 3 << 19},
    "bernoulli2": {"group_bytes": 3 << 18, "map_bytes": 1 << 16, "unfused_bytes": 1 << 17},
}
"""Memory sizes that the traffic of single stacks and the "spills from" of reference/latency.md suggest."""


def fit_memory(networks: Networks, latency: Latency) -> Latency:
    """The memory sizes that reproduce the measured DDR traffic best: those of O2, one where maps share it with weights,
    then that of O1.
    """
    pairs = ((size, size) for size in _MEMORY_GRID) if latency.weights_on_chip else product(_MEMORY_GRID, repeat=2)
    fused = ({"group_bytes": rows, "map_bytes": maps} for rows, maps in pairs)
    unfused = ({"unfused_bytes": size} for size in _MEMORY_GRID)
    return _best_memory(networks, "O1", unfused, _best_memory(networks, "O2", fused, latency))


def _best_memory(networks: Networks, level: str, candidates: Iterable[dict[str, int]], latency: Latency) -> Latency:
    """``latency`` with the sizes of the least mean error of traffic at a level, near their start among equals."""
    chosen = [(row, network) for row, network in networks if row.optimize_level == level]
    start = MEMORY_START[networks[0][0].march]

    def error(sizes: dict[str, int]) -> float:
        cases = cases_of(chosen, latency.model_copy(update=sizes))
        walk = sum(abs(np.log2(size / start[name])) for name, size in sizes.items())
        return float(np.average(ddr_errors(cases).clip(max=1), weights=_weights(cases)) + _MEMORY_PRIOR_WEIGHT * walk)

    return latency.model_copy(update=min(candidates, key=error))


def fit_constants(cases: Sequence[MeasuredCase], latency: Latency) -> Latency:
    """The constants that minimise the robust log errors of latencies and computing times, from :data:`START`.

    The loss has several minima in how much the engines overlap; the best of three starts counts.
    """
    names = [name for name in Fitted.model_fields if name in START[cases[0].row.march]]
    start = np.log([START[cases[0].row.march][name] for name in names])
    prior = np.asarray([_MEASURED.get(name, _PRIOR_WEIGHT) for name in names])
    measured = np.asarray([case.row.latency_us for case in cases])
    computing = np.asarray([case.row.compute_us for case in cases])
    timed = computing >= LEAST_COMPUTE_US
    weights = _weights(cases)

    def with_constants(logarithms: Floats) -> Latency:
        values = dict(zip(names, np.exp(logarithms).tolist(), strict=True))
        return latency.model_copy(update={"fitted": Fitted(**values)})

    def residuals(logarithms: Floats) -> Floats:
        candidate = with_constants(logarithms)
        found = np.asarray([case.times_us(candidate) for case in cases])
        of_latency = weights * np.log(found[:, 0] / measured)
        of_computing = np.log(found[timed, 1] / computing[timed])
        return np.concatenate([of_latency, _COMPUTE_WEIGHT * of_computing, prior * (logarithms - start)])

    walk = np.log(_WALK)
    least = np.array([0.0 if name == "int16_factor" else -np.inf for name in names])
    most = np.array([0.0 if name in _SHARES else np.inf for name in names])
    limits = (np.maximum(start - walk, least), np.minimum(start + walk, most))
    overlap = np.array([name == "pipeline_bytes" for name in names], float)
    found = (
        least_squares(
            residuals, start + overlap * shift, bounds=limits, loss="soft_l1", f_scale=_LOSS_SCALE, ftol=_TOLERANCE
        )
        for shift in (-walk / 2, 0.0, walk / 2)
    )
    return with_constants(min(found, key=lambda result: float(result.cost)).x)


def _weights(cases: Sequence[MeasuredCase]) -> Floats:
    return np.asarray([_NETWORK_WEIGHT if case.row.kind == "net" else 1.0 for case in cases])
