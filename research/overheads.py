"""The second step of the fit: what layers take besides computing and traffic, from whole networks in deployed forms.

The model is linear in these constants, in the cost of a subgraph and in that of a layer of weights: all others stand as
the first step found them. They are the non-negative ones of the least absolute error, relative to the network that a
subgraph belongs to; rows of single layers take part with less weight, so that they stay as they are.

Marches of one generation are fitted together, and constants are pulled towards their kin (:data:`_KIN`, and the same
constant of the other march): what one network shows cannot take any value that happens to explain the rest of that
network's error, and what none shows is not free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import nnls

from engine.chips.latency import Latency
from engine.chips.latency.overhead import Measured, Overhead
from engine.compile.cost import beside_amounts, layer_costs, subgraph_us
from engine.compile.overheads import amounts
from engine.compile.schedule import Schedule
from engine.ops.core.costs import OF_WEIGHTS
from engine.terms import OptimizeLevel
from research.deployed import Deployed

Floats = NDArray[np.float64]

_FUSED = frozenset({OptimizeLevel.O2, OptimizeLevel.O3})
_LAYER_WEIGHT = 0.3
"""Weight of a row of single layers, or of a network of a few nodes, against a network."""
_EXACT = 0.01
"""Errors below this part of a network all count the same: the sum of absolute errors has no derivative at 0."""
_ROUNDS = 30
"""Of reweighting, after which the constants change no more."""
_STEPS = 4
"""Of the whole: loads hide behind what layers wait for, so that estimates are not quite linear in the constants."""
_PULL_KIN = 0.03
"""Of kin towards their mean, per relative distance from it."""
_PULL_MARCHES = 0.3
"""Of the marches of a generation, by their pace: ten times as strong, for bayes has one network for every constant."""
_KIN = (
    frozenset({Overhead.SINGLE, Overhead.DEEP_REDUCE}),
    frozenset({Overhead.VIEW, Overhead.MOVED}),
)
"""Elements that are handled one at a time, and rows."""
_LEAST_US = 0.01
"""Of a mean that distances are relative to."""
_NOTHING_US = 1e-3
"""Smaller constants than this are rounding errors."""
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
        weight: of its relative error.
    """

    net: str
    whole_us: float
    measured_us: float
    schedules: tuple[Schedule, ...]
    weight: float = 1.0

    @classmethod
    def of_row(cls, measured_us: float, *schedules: Schedule) -> MeasuredPart:
        """A row of single layers."""
        return cls("", measured_us, measured_us, schedules, _LAYER_WEIGHT)


def parts_of(networks: Iterable[Deployed]) -> list[MeasuredPart]:
    """The subgraphs of networks; those of a network whose number is not the original's count together.

    Conversions of a network that differ in nothing that the BPU sees count once.
    """
    found: dict[tuple[str, float], list[MeasuredPart]] = {}
    for network in networks:
        whole, schedules = network.latency_us, network.schedules
        weight = _LAYER_WEIGHT if network.small else 1.0
        if len(schedules) == len(network.subgraphs):
            pairs = zip(network.subgraphs, schedules, strict=True)
            parts = [MeasuredPart(network.net, whole, us.latency, (schedule,), weight) for us, schedule in pairs]
        else:
            parts = [MeasuredPart(network.net, whole, whole, schedules, weight)]
        found.setdefault((network.net, whole), parts)
    return [part for parts in found.values() for part in parts]


@dataclass(frozen=True)
class Shown:
    """What shows the overheads of one march.

    Attributes:
        rows: of single layers and stacks.
        networks: that take part.
        latency: the data that all else is taken from.
        pace: what a wait takes of one on the first march of the generation.
    """

    rows: Sequence[MeasuredPart]
    networks: Sequence[Deployed]
    latency: Latency
    pace: float = 1.0

    @property
    def fused(self) -> list[Deployed]:
        """Networks whose layers run together."""
        return [network for network in self.networks if network.level in _FUSED]


def fit_overheads(marches: Sequence[Shown]) -> list[Latency]:
    """The data of marches of one generation with the cost of a subgraph, of a layer and the overheads fitted."""
    parts = [[*parts_of(march.fused), *march.rows] for march in marches]
    latencies = [march.latency for march in marches]
    for _ in range(_STEPS):
        shown = [replace(march, latency=latency) for march, latency in zip(marches, latencies, strict=True)]
        found = _least_absolute(parts, shown)
        latencies = [_with_constants(march, dict(constants)) for march, constants in zip(shown, found, strict=True)]
    return latencies


def _timed(latency: Latency) -> dict[Overhead, Measured]:
    """The overheads that computing times of layers tell: they are not fitted."""
    return {overhead: value for overhead, value in latency.overheads.items() if value.timed}


def _parts_of(parts: Iterable[MeasuredPart], latency: Latency) -> Counter[str]:
    """How many rows and draws show each overhead."""
    return Counter(name for part in parts for name in _amounts_of(part.schedules, latency))


def _with_constants(march: Shown, constants: dict[str, float]) -> Latency:
    fixed = {name: constants.pop(name, 0.0) for name in _FREE}
    shown, drawn = _networks_of(march.fused, march.latency), _parts_of(march.rows, march.latency)
    overheads = {
        Overhead(name): Measured(us=float(f"{us:.3g}"), networks=shown.get(Overhead(name), 0), draws=drawn[name])
        for name, us in constants.items()
        if us >= _NOTHING_US
    } | _timed(march.latency)
    fitted = march.latency.fitted.model_copy(update=fixed)
    return march.latency.model_copy(update={"fitted": fitted, "overheads": dict(sorted(overheads.items()))})


def fit_apart(
    parts: Sequence[Sequence[MeasuredPart]], latencies: Sequence[Latency], overhead: Overhead, networks: Sequence[int]
) -> list[Latency]:
    """``latencies`` with an overhead that only O0 and O1 show, the same on all, of the least absolute relative error.

    Args:
        parts: of each march, compiled at such a level.
        latencies: of each march, with all other overheads.
        overhead: what is fitted.
        networks: how many networks of each march show it.
    """
    without = [_with(latency, overhead, None) for latency in latencies]
    shown = [
        (_amounts_of(part.schedules, latency).get(overhead.value, 0.0), part, latency)
        for of_march, latency in zip(parts, without, strict=True)
        for part in of_march
    ]
    shown = [entry for entry in shown if entry[0]]
    if not shown:
        return without
    each = np.asarray(
        [(part.measured_us - latency_us(part.schedules, latency)) / amount for amount, part, latency in shown]
    )
    order = np.argsort(each)
    weight = np.cumsum(np.asarray([amount / part.measured_us for amount, part, _ in shown])[order])
    found = max(float(each[order][np.searchsorted(weight, weight[-1] / 2)]), 0.0)
    return [
        _with(latency, overhead, Measured(us=float(f"{found:.3g}"), networks=count))
        for latency, count in zip(latencies, networks, strict=True)
    ]


def _with(latency: Latency, overhead: Overhead, value: Measured | None) -> Latency:
    others = {key: found for key, found in latency.overheads.items() if key is not overhead}
    return latency.model_copy(update={"overheads": others if value is None else others | {overhead: value}})


def latency_us(schedules: Iterable[Schedule], latency: Latency) -> float:
    """The estimate for all subgraphs of a network."""
    return sum(subgraph_us(schedule, layer_costs(schedule, latency), latency.fitted) for schedule in schedules)


def traffic_bytes(schedules: Iterable[Schedule], latency: Latency) -> int:
    """The estimate of the DDR traffic of all subgraphs of a network."""
    costs = (cost for schedule in schedules for cost in layer_costs(schedule, latency))
    return sum(cost.traffic.loaded + cost.traffic.stored for cost in costs)


def _least_absolute(parts: Sequence[Sequence[MeasuredPart]], marches: Sequence[Shown]) -> list[dict[str, float]]:
    """The non-negative constants of each march; by least squares that are weighted anew in every round.

    Args:
        parts: of each march.
        marches: the same.
    """
    found = [
        [_amounts_of(part.schedules, march.latency) for part in of_march]
        for of_march, march in zip(parts, marches, strict=True)
    ]
    told = {overhead.value for march in marches for overhead in _timed(march.latency)}
    names = sorted({name for of_march in found for entry in of_march for name in entry} - told)
    matrix = block_diag(*([[entry.get(name, 0.0) for name in names] for entry in of_march] for of_march in found))
    wanted = np.asarray([us for each in zip(parts, marches, strict=True) for us in _unexplained_us(*each)])
    flat = [part for of_march in parts for part in of_march]
    weights = np.asarray([part.weight / part.whole_us for part in flat])
    pulls = list(_pulls(names, len(marches)))
    paces = np.repeat([march.pace for march in marches], len(names))
    trust: Floats = np.ones(len(flat))
    solution: Floats = np.ones(matrix.shape[1])
    for _ in range(_ROUNDS):
        scale = weights * trust
        pulled = [pull * _towards_mean(columns, solution / paces) / paces for columns, pull in pulls]
        left = np.vstack([matrix * scale[:, None], *pulled])
        solution, _ = nnls(left, np.concatenate([wanted * scale, np.zeros(len(left) - len(flat))]))
        errors = abs(matrix @ solution - wanted) * weights
        trust = 1 / np.sqrt(np.maximum(errors, _EXACT) / _EXACT)
    return [dict(zip(names, values, strict=True)) for values in solution.reshape(len(marches), len(names)).tolist()]


def _unexplained_us(parts: Sequence[MeasuredPart], march: Shown) -> Iterator[float]:
    """What of the latency of each part is left for the constants, beside what hides behind them as they are."""
    latency = march.latency
    timed = _timed(latency)
    values = {name: getattr(latency.fitted, name) for name in _FREE}
    values |= {overhead.value: value.us for overhead, value in latency.overheads.items() if overhead not in timed}
    for part in parts:
        linear = sum(values.get(name, 0.0) * amount for name, amount in _amounts_of(part.schedules, latency).items())
        yield part.measured_us - latency_us(part.schedules, latency) + linear


def _pulls(names: Sequence[str], marches: int) -> Iterator[tuple[list[int], float]]:
    """Columns of constants that are pulled towards their mean, and how strongly."""
    for position, name in enumerate(names):
        if marches > 1 and name not in _FREE:
            yield [march * len(names) + position for march in range(marches)], _PULL_MARCHES
    for kin in _KIN:
        positions = [names.index(name) for name in kin if name in names]
        for march in range(marches):
            yield [march * len(names) + position for position in positions], _PULL_KIN


def _towards_mean(columns: Sequence[int], solution: Floats) -> Floats:
    """Rows that are 0 where all of ``columns`` have the same value."""
    rows = np.zeros((len(columns), len(solution)))
    if columns:
        distances = np.eye(len(columns)) - 1 / len(columns)
        rows[:, list(columns)] = distances / max(float(solution[list(columns)].mean()), _LEAST_US)
    return rows


def _amounts_of(schedules: Sequence[Schedule], latency: Latency) -> dict[str, float]:
    """How often a subgraph, a layer and each overhead occur."""
    found: dict[str, float] = defaultdict(float)
    for schedule in schedules:
        found[_FIXED] += 1
        found[_ENTRY] += any(not tensor.inner for tensor in schedule.inputs)
        found[_LAYER] += sum(layer.kind in OF_WEIGHTS for layer in schedule.layers)
        for layer, beside in beside_amounts(schedule):
            told = (each for each in beside if each[0] in latency.overheads)
            for overhead, amount in (*amounts(layer, schedule.overlap, latency), *told):
                found[overhead.value] += amount
    return found


def shows(network: Deployed, overhead: Overhead, latency: Latency) -> bool:
    """Whether a network has such an overhead."""
    return overhead.value in _amounts_of(network.schedules, latency)


def _networks_of(networks: Collection[Deployed], latency: Latency) -> dict[Overhead, int]:
    """How many networks show each overhead."""
    shown: dict[Overhead, set[str]] = defaultdict(set)
    for network in networks:
        for name in _amounts_of(network.schedules, latency).keys() - set(_FREE):
            shown[Overhead(name)].add(network.net)
    return {overhead: len(names) for overhead, names in shown.items()}
