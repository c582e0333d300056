"""Which operators were measured: the ones that occur in recorded conversions of the original, by march and rank."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

import yaml

from engine.terms import measured_march

FILE = "measured.yaml"
"""Beside this module; ``ptqlab conformance coverage`` writes it."""

Coverage = Mapping[str, Mapping[str, tuple[int, ...]]]
"""By march and operator of the float network: ranks of the largest activation that it read."""


@cache
def load_measured() -> Coverage:
    """All that was measured."""
    content = yaml.safe_load((resources.files("engine.march") / FILE).read_text("utf-8"))
    return MappingProxyType(
        {
            march: MappingProxyType({op: tuple(ranks) for op, ranks in operators.items()})
            for march, operators in content.items()
        }
    )


def is_measured(march: str, operator: str, rank: int) -> bool:
    """Whether a recorded conversion for ``march``, or the march that stands in for it, has that operator and rank."""
    return rank in load_measured().get(measured_march(march), {}).get(operator, ())
