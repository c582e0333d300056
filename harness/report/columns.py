"""The columns of figures in the table of trials: heading, decimals, words of the legend, and the value of a trial."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.errors import PtqlabError
from harness.extensions import COLUMNS
from harness.files.user_code import running_own
from harness.trials.trial import TrialResult, TrialStore

logger = logging.getLogger(__name__)

Value = float | str | None


class Column(ABC):
    """One column; those that users register also stand in ``trials.csv``, under the name of the registration.

    Attributes:
        heading: in the table, short.
        decimals: that are shown; None for text.
        legend: what stands below the table about it; empty where the heading says all.
    """

    heading: str
    decimals: int | None = 4
    legend: str = ""

    @abstractmethod
    def value(self, result: TrialResult, store: TrialStore) -> Value:
        """The column's value of a trial that did not fail; None where it has none.

        Args:
            result: figures (:meth:`TrialResult.metrics`), settings, what could not be honoured.
            store: has node tables and predictions by ``result.spec.key``.
        """


@dataclass(frozen=True)
class FigureColumn(Column):
    """A figure of :meth:`TrialResult.metrics`.

    Attributes:
        name: of the figure.
        factor: from its unit to that of the column.
    """

    heading: str
    name: str
    decimals: int | None = 4
    factor: float = 1
    legend: str = ""

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        """In the column's unit."""
        found = result.metrics().get(self.name)
        return None if found is None else found * self.factor


class _Margin(Column):
    heading, decimals, legend = "±", 2, "±: half a 95 % interval of Δ"

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return 100 * result.accuracy.margin if result.accuracy else None


class _Unmet(Column):
    heading, decimals, legend = "unmet", 0, "unmet: requests that could not be honoured"

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return len(result.unmet)


class _Seconds(Column):
    heading, decimals, legend = "s", 2, "s: seconds spent on this trial alone"

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        return sum(result.seconds.values())


FIGURES: Mapping[str, Column] = MappingProxyType(
    {
        column.heading: column
        for column in (
            FigureColumn("accuracy", "accuracy.quantized"),
            FigureColumn("Δ pt", "accuracy.delta", 2, 100),
            FigureColumn("agree", "agreement"),
            FigureColumn("cosine", "cosine.output", 5),
            FigureColumn("min", "cosine.min", legend="min: least cosine of a sample"),
            FigureColumn("SQNR", "sqnr", 1, legend="SQNR in dB"),
            FigureColumn("BPU ms", "latency.ms", 3, legend="ms: estimates"),
            FigureColumn("CPU ms", "latency.cpu_ms", 3),
            FigureColumn("MB", "ddr.mb", 2, legend="MB: DDR traffic per frame"),
            FigureColumn("CPU", "cpu_nodes", 0, legend="CPU: operators there"),
            FigureColumn("BPU", "subgraphs", 0, legend="BPU: subgraphs"),
            _Margin(),
            _Unmet(),
            _Seconds(),
        )
    }
)
"""Ptqlab's own by heading, in order."""


def columns() -> list[Column]:
    """All columns, those of users last.

    Raises:
        ConfigError: a registration is wrong.
    """
    return [*FIGURES.values(), *own_columns().values()]


def own_columns() -> dict[str, Column]:
    """Columns that users registered, by name.

    Raises:
        ConfigError: a registration is wrong.
    """
    return {entry.name: _Guarded(entry.name, entry.value()) for entry in COLUMNS.entries()}


class _Guarded(Column):
    """A column of the user's, whose mistakes must not lose a report."""

    def __init__(self, name: str, column: Column) -> None:
        self._name, self._column = name, column
        self.heading, self.decimals, self.legend = column.heading, column.decimals, column.legend

    def value(self, result: TrialResult, store: TrialStore) -> Value:
        what = f"{type(self._column).__module__}:{self._name}"
        try:
            with running_own(what, COLUMNS.kind):
                found = self._column.value(result, store)
                return found if found is None or self.decimals is None else float(found)
        except (PtqlabError, OSError, ImportError) as error:  # the other figures of the sweep are there
            logger.warning("trial %s: %s; the cell stays empty", result.spec.id, error)
            return None
