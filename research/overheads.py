"""The second step of the fit: what layers take besides computing and traffic, from whole networks in deployed forms.

The model is linear in these constants, in the cost of a subgraph and in that of a layer: all others stand as the first
step found them. They are the non-negative ones of the least absolute error, relative to the network that a subgraph
belongs to; rows of single layers take part with less weight, so that they stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.overheads import amounts
from engine.compile.schedule import Schedule
from engine.march.latency import Latency, Measured, Overhead
from engine.terms import OptimizeLevel
from research.deployed import Deployed

Floats = NDArray[np.float64]

_FUSED = frozenset({OptimizeLevel.O2, OptimizeLevel.O3})
_LAYER_WEIGHT = 0.3
"""Weight of a row of single layers against a network."""
_EXACT = 0.01
"""Errors below this part of a network all count the same: the sum of absolute errors has no derivative at 0."""
_ROUNDS = 30
"""Of reweighting, after which the constants change no more."""
_PRIOR_WEIGHT = 0.03
"""Pull towards the constants of a march of the same generation that more networks show."""
_FIXED, _ENTRY, _LAYER = "fixed_us", "entry_us", "layer_us"
_FREE = (_FIXED, _ENTRY, _LAYER)


@dataclass(frozen=True)
class MeasuredPart:
    """One or more subgraphs of which the sum of latencies was measured.

    Attributes:
        net: network that they belong to; empty for a row of single layers.
        whole_us: measured, of the network.
        measured_us: of these subgraphs.
        schedules: of these subgraphs.
    """

    net: str
    whole_us: float
    measured_us: float
    schedules: tuple[Schedule, ...]

    @classmethod
    def of_row(cls, measured_us: float, *schedules: Schedule) -> MeasuredPart:
        """A row of single layers."""
        return cls("", measured_us, measured_us, schedules)


def parts_of(networks: Iterable[Deployed]) -> list[MeasuredPart]:
    """The subgraphs of networks; those of a network whose number is not the original's count together.

    Conversions of a network that differ in nothing that the BPU sees count once.
    """
    found: dict[tuple[str, float], list[MeasuredPart]] = {}
    for network in networks:
        whole, schedules = network.latency_us, network.schedules
        if len(schedules) == len(network.subgraphs):
            pairs = zip(network.subgraphs, schedules, strict=True)
            parts = [MeasuredPart(network.net, whole, figures.latency, (schedule,)) for figures, schedule in pairs]
        else:
            parts = [MeasuredPart(network.net, whole, whole, schedules)]
        found.setdefault((network.net, whole), parts)
    return [part for parts in found.values() for part in parts]


def fit_overheads(
    rows: Sequence[MeasuredPart],
    networks: Sequence[Deployed],
    latency: Latency,
    prior: Mapping[Overhead, Measured] | None = None,
) -> Latency:
    """``latency`` with the cost of a subgraph, of a layer and the overheads fitted.

    Args:
        rows: of single layers and stacks.
        networks: that take part.
        latency: of the march.
        prior: overheads of a march of the same generation.
    """
    fused = [network for network in networks if network.level in _FUSED]
    parts = [*parts_of(fused), *rows]
    names, costs = _least_absolute(parts, latency, prior or {})
    constants = dict(zip(names, costs, strict=True))
    fixed = {name: float(constants.pop(name, 0.0)) for name in _FREE}
    shown = _networks_of(fused, latency)
    overheads = {
        Overhead(name): Measured(us=float(f"{us:.3g}"), networks=shown.get(Overhead(name), 0))
        for name, us in constants.items()
        if us > 0
    }
    return latency.model_copy(
        update={"fitted": latency.fitted.model_copy(update=fixed), "overheads": dict(sorted(overheads.items()))}
    )


def fit_unfused(parts: Sequence[MeasuredPart], latency: Latency, networks: int) -> Latency:
    """``latency`` with the overhead of a layer where nothing stays on the chip, of the least absolute relative error.

    Args:
        parts: compiled at O0.
        latency: with all other overheads.
        networks: how many are among ``parts``.
    """
    others = {key: value for key, value in latency.overheads.items() if key is not Overhead.UNFUSED}
    without = latency.model_copy(update={"overheads": others})
    layers = np.asarray([sum(len(schedule.layers) for schedule in part.schedules) for part in parts])
    measured = np.asarray([part.measured_us for part in parts])
    each = (measured - [latency_us(part.schedules, without) for part in parts]) / layers
    order = np.argsort(each)
    weight = np.cumsum((layers / measured)[order])
    found = max(float(each[order][np.searchsorted(weight, weight[-1] / 2)]), 0.0)
    unfused = Measured(us=float(f"{found:.3g}"), networks=networks)
    return latency.model_copy(update={"overheads": others | {Overhead.UNFUSED: unfused}})


def latency_us(schedules: Iterable[Schedule], latency: Latency) -> float:
    """The estimate for all subgraphs of a network."""
    return sum(subgraph_us(schedule, layer_costs(schedule, latency), latency.fitted) for schedule in schedules)


def _least_absolute(
    parts: Sequence[MeasuredPart], latency: Latency, prior: Mapping[Overhead, Measured]
) -> tuple[list[str], Floats]:
    """Names and values of the non-negative constants; by least squares that are weighted anew in every round."""
    bare = latency.model_copy(
        update={"fitted": latency.fitted.model_copy(update=dict.fromkeys(_FREE, 0.0)), "overheads": {}}
    )
    found = [_amounts_of(part.schedules, latency) for part in parts]
    names = sorted({name for entry in found for name in entry} | {key.value for key in prior})
    matrix = np.asarray([[entry.get(name, 0.0) for name in names] for entry in found])
    wanted = np.asarray([part.measured_us - latency_us(part.schedules, bare) for part in parts])
    weights = np.asarray([(1.0 if part.net else _LAYER_WEIGHT) / part.whole_us for part in parts])
    known = {name: prior[Overhead(name)].us for name in names if name in set(Overhead) and Overhead(name) in prior}
    pulls = [(names.index(name), us) for name, us in known.items() if us > 0]
    pull_rows = np.zeros((len(pulls), len(names)))
    for row, (column, us) in enumerate(pulls):
        pull_rows[row, column] = _PRIOR_WEIGHT / us
    trust: Floats = np.ones(len(parts))
    solution: Floats = np.zeros(len(names))
    for _ in range(_ROUNDS):
        scale = weights * trust
        left = np.vstack([matrix * scale[:, None], pull_rows])
        right = np.concatenate([wanted * scale, np.full(len(pulls), _PRIOR_WEIGHT)])
        solution, _ = nnls(left, right)
        errors = abs(matrix @ solution - wanted) * weights
        trust = 1 / np.sqrt(np.maximum(errors, _EXACT) / _EXACT)
    return names, solution


def _amounts_of(schedules: Sequence[Schedule], latency: Latency) -> dict[str, float]:
    """How often a subgraph, a layer and each overhead occur."""
    found: dict[str, float] = defaultdict(float)
    for schedule in schedules:
        found[_FIXED] += 1
        found[_ENTRY] += any(not tensor.inner for tensor in schedule.inputs)
        found[_LAYER] += len(schedule.layers)
        for layer in schedule.layers:
            for overhead, amount in amounts(layer, schedule.overlap, latency):
                found[overhead.value] += amount
    return found


def _networks_of(networks: Collection[Deployed], latency: Latency) -> dict[Overhead, int]:
    """How many networks show each overhead."""
    shown: dict[Overhead, set[str]] = defaultdict(set)
    for network in networks:
        for name in _amounts_of(network.schedules, latency).keys() - set(_FREE):
            shown[Overhead(name)].add(network.net)
    return {overhead: len(names) for overhead, names in shown.items()}
