"""The constants of a march whose layers run in groups, and its overheads, fitted together to all that was measured.

The two steps of :mod:`research.fit` share out what hides behind what: rates from rows of large maps, waits from
networks. What was asked since tells rates and waits of small layers by themselves, so this step starts at figures that
were read off pages and grids (:data:`START`) and lets all constants move at once. Those of other steps
(:class:`~engine.chips.latency.fitted.Fitted` has all) stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from engine.chips.latency import Latency
from engine.chips.latency.overhead import Overhead
from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.schedule import Schedule
from engine.compile.traffic import LayerTraffic, layer_traffic
from research.overheads import MeasuredPart

Floats = NDArray[np.float64]

START: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "bayes-e": {"fixed_us": 1.7, "layer_us": 0.2, "begin_us": 0.95, "ahead_share": 0.45, "ahead_bytes": 262144}
        | {"mac_rate": 2034, "depthwise_rate": 310, "activation_rate": 90, "elementwise_rate": 28, "multiply_rate": 13}
        | {"pool_rate": 300, "window_rate": 130, "resize_rate": 10.3, "wide_rate": 17, "wide_row_ns": 2.2}
        | {"input_rate": 22, "pipeline_bytes": 1.8e6},
        "bayes": {"fixed_us": 1.5, "layer_us": 0.15, "begin_us": 0.8, "ahead_share": 0.45, "ahead_bytes": 262144}
        | {"mac_rate": 9000, "depthwise_rate": 1000, "activation_rate": 300, "elementwise_rate": 70}
        | {"multiply_rate": 42, "pool_rate": 700, "window_rate": 350, "resize_rate": 25, "wide_rate": 50}
        | {"wide_row_ns": 2.0, "input_rate": 50, "pipeline_bytes": 5e6},
    }
)
"""Where the constants start: pages of layers by themselves (rates), chains of equal layers (loads and what hides)."""
TOLD: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "bayes-e": {"load_gbps": 7.5, "store_gbps": 7.2, "row_ns": 3.0, "map_us": 0.85, "int16_loads": 4.0},
        "bayes": {"load_gbps": 8.9, "store_gbps": 8.4, "row_ns": 2.0, "map_us": 0.7, "int16_loads": 4.0},
    }
)
"""Not fitted: chains of layers with many weights on few pixels, and large maps that enter and leave, tell them; single
convolutions of 2 x 2 to 224 x 224 the rows, batches of 1, 4 and 8 maps the loads of each, chains of int16 theirs.
"""
_MEASURED: Mapping[str, float] = MappingProxyType(
    {"begin_us": 0.1, "mac_rate": 0.1, "elementwise_rate": 0.1, "ahead_bytes": 0.2}
)
"""Pull of constants that were measured by themselves towards their start."""
_PULL = 0.02
"""Of all others."""
_LEAST_WEIGHT = 0.1
"""Of a drawn layer: there are many, but they tell rates apart that a network shows together."""
_LEAST_US = 0.02
"""An overhead starts at least here: none is lost for good."""
_LOSS_SCALE = 0.05
"""Relative error beyond which a part pulls with constant force."""
_STEPS = 8
_SHARES = frozenset({"ahead_share"})
"""Constants that cannot exceed one."""
_OF_OTHER_LEVELS = frozenset({Overhead.UNFUSED, Overhead.SINGLE_DDR})


@dataclass(frozen=True)
class _Timed:
    """A measured part with the traffic of its schedules, which no constant changes."""

    part: MeasuredPart
    subgraphs: tuple[tuple[Schedule, Sequence[LayerTraffic]], ...]

    @classmethod
    def of(cls, part: MeasuredPart, latency: Latency) -> _Timed:
        return cls(part, tuple((schedule, layer_traffic(schedule, latency)) for schedule in part.schedules))

    def error(self, latency: Latency) -> float:
        """Relative to the network that it belongs to."""
        found = sum(
            subgraph_us(schedule, layer_costs(schedule, latency, traffic), latency.fitted)
            for schedule, traffic in self.subgraphs
        )
        return (found - self.part.measured_us) / self.part.whole_us


def start_of(march: str) -> dict[str, float]:
    """Constants to start from; none for a march whose constants stay."""
    return {**TOLD.get(march, {}), **START.get(march, {})}


def fit_rates(march: str, parts: Sequence[MeasuredPart], latency: Latency) -> Latency:
    """``latency`` with the constants of :data:`START` and the overheads that are not timed fitted to ``parts``."""
    if march not in START:
        return latency
    timed = [_Timed.of(part, latency) for part in parts]
    weights = np.sqrt([max(part.weight, _LEAST_WEIGHT) for part in parts])
    overheads = [key for key, value in latency.overheads.items() if not value.timed and key not in _OF_OTHER_LEVELS]
    names = list(START[march])
    start = np.log(
        [*START[march].values(), *(max(latency.overheads[overhead].us, _LEAST_US) for overhead in overheads)]
    )
    pulls = np.asarray([_MEASURED.get(name, _PULL) for name in names] + [_PULL] * len(overheads))

    def with_constants(logarithms: Floats) -> Latency:
        values = np.exp(logarithms).tolist()
        fitted = latency.fitted.model_copy(update=dict(zip(names, values, strict=False)))
        found = {
            overhead: latency.overheads[overhead].model_copy(update={"us": us})
            for overhead, us in zip(overheads, values[len(names) :], strict=True)
        }
        return latency.model_copy(update={"fitted": fitted, "overheads": dict(latency.overheads) | found})

    def residuals(logarithms: Floats) -> Floats:
        candidate = with_constants(logarithms)
        errors = np.asarray([each.error(candidate) for each in timed])
        return np.concatenate([weights * errors, pulls * (logarithms - start)])

    most = np.asarray([0.0 if name in _SHARES else np.inf for name in names] + [np.inf] * len(overheads))
    found = least_squares(
        residuals, start, bounds=(-np.inf, most), loss="soft_l1", f_scale=_LOSS_SCALE, max_nfev=_STEPS
    )
    return with_constants(found.x)
