"""Which operators were measured: the ones that occur in recorded conversions of the original, by march and rank."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from engine.chips.registry import load_chip
from engine.chips.yaml_files import read_facts

FILE = "measured.yaml"
"""Beside this module; ``ptqlab conformance coverage`` writes it."""

Coverage = Mapping[str, Mapping[str, tuple[int, ...]]]
"""By march and operator of the float network: ranks of the largest activation that it read."""


@cache
def load_measured() -> Coverage:
    """All that was measured."""
    content = read_facts(Path(__file__).with_name(FILE))
    return MappingProxyType(
        {
            march: MappingProxyType({op: tuple(ranks) for op, ranks in operators.items()})
            for march, operators in content.items()
        }
    )


def is_measured(march: str, operator: str, rank: int) -> bool:
    """Whether a recorded conversion for ``march``, or the chip that stands in for it, has that operator and rank."""
    return rank in load_measured().get(load_chip(march).figures, {}).get(operator, ())
