"""Which tensors are int16: the tables, in the order in which they decide.

:mod:`engine.place.widths` applies them to tensors that must have one type. Source: reference/operators.md, int16 and
Partition.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from engine.rulebook.rule import Table
from engine.rulebook.width_ends import TAILS
from engine.rulebook.width_requests import (
    CPU_ALONE,
    NARROW,
    OF_HEADS,
    OF_SUMS,
    REQUESTS,
    SIDES,
    SUMS,
    Asked,
    Narrowing,
    Told,
)
from engine.rulebook.width_sites import Chained, Width
from engine.rulebook.width_ties import FOLLOWING, GROUPS, TABLE_INPUTS, TIES, TableNode, Tied, TiedTensors, Tying


@dataclass(frozen=True)
class WidthRules:
    """The tables, in the order in which they decide."""

    of_heads: Table[Chained, Told] = OF_HEADS
    of_sums: Table[Chained, Told] = OF_SUMS
    cpu_alone: Table[Chained, str] = CPU_ALONE
    requests: Table[Asked, Width] = REQUESTS
    tails: Table[Chained, Width] = TAILS
    ties: Table[Tying, Tied] = TIES
    following: Table[Tying, Width] = FOLLOWING
    table_inputs: Table[TableNode, Width] = TABLE_INPUTS
    groups: Table[TiedTensors, Width] = GROUPS
    sides: Table[Asked, Width] = SIDES
    narrow: Table[Chained, Narrowing] = NARROW
    sums: Table[Chained, str] = SUMS

    @property
    def tables(self) -> tuple[Table[Any, Any], ...]:
        """The tables alone."""
        return tuple(getattr(self, each.name) for each in fields(self))
