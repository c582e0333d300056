"""Measured rows of single layers, stacks and networks with the schedules that the compiler makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.chips.latency import Latency
from engine.compile.compiler import CompileOptions, memory_of
from engine.compile.cost import layer_costs, subgraph_us
from engine.compile.schedule import Schedule
from engine.compile.traffic import LayerTraffic, Traffic, layer_traffic
from engine.terms import OptimizeLevel
from research.corpus import MeasuredNetwork, MeasuredRow, network_of_row

Floats = NDArray[np.float64]

SHORT_US = 30.0
"""Rows that take less are fitted but not counted: a microsecond is several percent of them."""


@dataclass(frozen=True)
class MeasuredCase:
    """A measured row, the schedule that the compiler would make, and its traffic, which no fitted constant changes."""

    row: MeasuredRow
    schedule: Schedule
    traffic: Sequence[LayerTraffic]

    @classmethod
    def of(cls, row: MeasuredRow, schedule: Schedule, latency: Latency) -> MeasuredCase:
        """The case of a row and its schedule."""
        return cls(row, schedule, layer_traffic(schedule, latency))

    def times_us(self, latency: Latency) -> tuple[float, float]:
        """Estimates of the latency and of the computing time of all layers."""
        costs = layer_costs(self.schedule, latency, self.traffic)
        return subgraph_us(self.schedule, costs, latency.fitted), sum(cost.working_us for cost in costs)

    def latency_us(self, latency: Latency) -> float:
        """The estimate of the latency."""
        return self.times_us(latency)[0]

    def working_us(self, latency: Latency) -> float:
        """The estimate of the computing time of all layers."""
        return self.times_us(latency)[1]

    @property
    def ddr_bytes(self) -> int:
        """The estimate."""
        total = sum((straight + detour for straight, detour in self.traffic), Traffic())
        return total.loaded + total.stored


@dataclass(frozen=True)
class Errors:
    """Relative errors of estimates; 0.1 is 10 percent."""

    latency: Floats
    ddr: Floats

    def summary(self) -> str:
        """Median and 90th percentile of both."""
        return " ".join(f"{np.median(e):7.1%} {np.quantile(e, 0.9):7.1%}" for e in (self.latency, self.ddr))


Networks = Sequence[tuple[MeasuredRow, MeasuredNetwork]]
"""Rows of one core and mode ``latency`` whose networks the reader knows."""


def networks_of(rows: Iterable[MeasuredRow], latency: Latency) -> Networks:
    """The rows that take part."""
    plain = (row for row in rows if row.core_num == 1 and row.compile_mode == "latency")
    read = ((row, network_of_row(row, latency)) for row in plain)
    return [(row, network) for row, network in read if network is not None]


def cases_of(networks: Networks, latency: Latency) -> list[MeasuredCase]:
    """The rows with their schedules."""
    memory = {
        level: memory_of(latency, CompileOptions(optimize_level=OptimizeLevel(level)))
        for level in {row.optimize_level for row, _ in networks}
    }
    return [MeasuredCase.of(row, network.schedule(memory[row.optimize_level]), latency) for row, network in networks]


def latencies(cases: Sequence[MeasuredCase], latency: Latency) -> Floats:
    """Estimates of all cases."""
    return np.asarray([case.latency_us(latency) for case in cases])


def errors_of(cases: Sequence[MeasuredCase], latency: Latency) -> Errors:
    """Relative errors of all cases."""
    measured = np.asarray([case.row.latency_us for case in cases])
    return Errors(abs(latencies(cases, latency) / measured - 1), ddr_errors(cases))


def ddr_errors(cases: Sequence[MeasuredCase]) -> Floats:
    """Relative errors of the traffic of all cases."""
    return np.asarray([abs(case.ddr_bytes / case.row.ddr_bytes - 1) for case in cases])


def counted(cases: Sequence[MeasuredCase]) -> list[MeasuredCase]:
    """Cases that are long enough to judge."""
    return [case for case in cases if case.row.latency_us > SHORT_US]


def where(cases: Sequence[MeasuredCase], **wanted: str) -> list[MeasuredCase]:
    """The cases whose rows have these values."""
    return [case for case in cases if all(getattr(case.row, key) == value for key, value in wanted.items())]
