"""The table of a conformance run: each measure over many cases, its bar, and what it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from engine.conformance.measures import Row, Share

Value = Callable[[Sequence[Row]], float | None]
"""A measure of some cases: a share or a relative error; ``None`` where no case has it."""


@dataclass(frozen=True)
class Measure:
    """One line of the table.

    Attributes:
        title: what it says, for people.
        value: computes it.
        lower_is_better: errors; else it is a share.
    """

    title: str
    value: Value
    lower_is_better: bool = False

    def reaches(self, value: float, bar: float) -> bool:
        """Whether ``value`` is as good as ``bar``."""
        return value <= bar if self.lower_is_better else value >= bar


def _cases(read: Callable[[Row], bool | None]) -> Value:
    """Share of the cases for which ``read`` holds, of those where it can be said."""

    def share(rows: Sequence[Row]) -> float | None:
        found = [value for row in rows if (value := read(row)) is not None]
        return sum(found) / len(found) if found else None

    return share


def _things(read: Callable[[Row], Share | None]) -> Value:
    """Share of the things of all cases that are equal."""

    def share(rows: Sequence[Row]) -> float | None:
        found = [value for row in rows if (value := read(row)) is not None]
        total = sum(value.total for value in found)
        return sum(value.equal for value in found) / total if total else None

    return share


def _mean(read: Callable[[Row], Share | None]) -> Value:
    """Mean over the cases of the share of its things that are equal."""

    def mean(rows: Sequence[Row]) -> float | None:
        found = [value.equal / value.total for row in rows if (value := read(row)) is not None and value.total]
        return sum(found) / len(found) if found else None

    return mean


def _all_equal(read: Callable[[Row], Share | None]) -> Callable[[Row], bool | None]:
    def whole(row: Row) -> bool | None:
        found = read(row)
        return None if found is None or not found.total else found.equal == found.total

    return whole


def _latency(percentile: float) -> Value:
    """Percentile of the relative errors of latency; a network that ours does not convert has no prediction."""

    def error(rows: Sequence[Row]) -> float | None:
        found = [value for row in rows if (value := row.latency_error) is not None]
        return float(np.percentile(found, percentile)) if found else None

    return error


def _of_things(name: str, title: str, read: Callable[[Row], Share | None]) -> dict[str, Measure]:
    """The share of all things, its mean over networks, and the networks with all of them equal."""
    return {
        name: Measure(title, _things(read)),
        f"{name}_mean": Measure("the same, mean over networks", _mean(read)),
        f"{name}_all": Measure("networks with all of them equal", _cases(_all_equal(read))),
    }


_IN_ORDER = "outputs_in_order"

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "converts": Measure("converts, or refuses where the original refuses", _cases(lambda row: row.converts)),
        "outputs": Measure("outputs of our quantised file equal the original's", _cases(lambda row: row.outputs)),
        _IN_ORDER: Measure(
            "the same, biases corrected in the order that the original took", _cases(lambda row: row.outputs_in_order)
        ),
        "operators": Measure("same operators, same order", _cases(lambda row: row.operators)),
        **_of_things("thresholds", "activation thresholds equal, by tensor", lambda row: row.thresholds),
        **_of_things("devices", "nodes on the same device, by name", lambda row: row.devices),
        "subgraphs": Measure("as many BPU subgraphs", _cases(lambda row: row.subgraphs)),
        **_of_things("integers", "integer constants equal, by name", lambda row: row.integers),
        "simulator": Measure("the original's file bit for bit on our simulator", _cases(lambda row: row.simulator)),
        "latency_median": Measure("latency, sum of BPU subgraphs: median error", _latency(50), True),
        "latency_p90": Measure("latency, sum of BPU subgraphs: 90th percentile of errors", _latency(90), True),
    }
)
"""The measures by name."""
SHORT = tuple(name for name in MEASURES if not name.endswith((_IN_ORDER, "_mean", "_all")))
"""Measures of the tables per march and per network."""


@dataclass(frozen=True)
class RowGroup:
    """Some rows of a run and all measures of them.

    Attributes:
        name: of the group; empty for all cases.
        cases: how many.
        values: by measure.
    """

    name: str
    cases: int
    values: Mapping[str, float | None]


def group(name: str, rows: Sequence[Row]) -> RowGroup:
    """All measures of ``rows``."""
    return RowGroup(name, len(rows), {key: measure.value(rows) for key, measure in MEASURES.items()})


def groups(rows: Iterable[Row], key: Callable[[Row], str]) -> tuple[RowGroup, ...]:
    """Measures of the rows by ``key``, sorted."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return tuple(group(name, found[name]) for name in sorted(found))


def of_march(row: Row) -> str:
    """Key of the table per march: held-out networks have lines of their own."""
    return f"{row.march}, held out" if row.held_out else row.march


def of_family(row: Row) -> str:
    """Key of the table per network."""
    return f"{row.family} (held out)" if row.held_out else row.family


def parts(rows: Sequence[Row]) -> tuple[RowGroup, ...]:
    """The columns of the table: seen and held out where some rows are held out, else all."""
    away = [row for row in rows if row.held_out]
    if not away:
        return (group("all", rows),)
    return (group("seen", [row for row in rows if not row.held_out]), group("held out", away))


def departures(rows: Sequence[Row]) -> Mapping[str, int]:
    """How many cases depart first at each stage, of those that are not held out; the most frequent stage first."""
    found = Counter(row.departure.stage.value for row in rows if row.departure is not None and not row.held_out)
    return dict(found.most_common())
