"""What the original makes of a float graph before it places nodes: the passes of :mod:`engine.optimize`, as rules.

What a pass looks for beyond the operator, and how it rewrites that, stays Python; its sentence, the march and the nodes
that it made are told as those of every other rule.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from engine.chips import CHIPS, ChipFamily
from engine.optimize import pipeline
from engine.rulebook.patterns import op
from engine.rulebook.rule import Pattern, Rule

TABLE = "rewrite"


def rewrite_id(name: str) -> str:
    """The id of the rule that the pass called ``name`` is: ``rewrite.gemm-to-conv`` of ``GemmToConv``."""
    words = re.findall(r"[A-Z][a-z]*\d*[a-z]*", name)
    return f"{TABLE}.{'-'.join(word.lower() for word in words)}"


def _sentence(kind: type[Any]) -> str:
    """The first paragraph of a docstring, as plain text."""
    text = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "").split())


def _rules() -> dict[str, Rule[Any, Any]]:
    kinds: dict[type[Any], set[ChipFamily]] = {}
    operators: dict[type[Any], set[str]] = {}
    for chip in CHIPS.values():
        for item in pipeline(chip):
            kinds.setdefault(type(item), set()).add(chip.family)
            operators.setdefault(type(item), set()).update(getattr(item, "op_types", ()))
    found = {}
    for kind, families in kinds.items():
        anything: Pattern[Any] = Pattern("is any", lambda site: True)
        looks_at = op(*sorted(operators[kind])) if operators[kind] else anything
        name, decision = rewrite_id(kind.__name__), f"is looked at by {kind.__name__}"
        found[name] = Rule(name, _sentence(kind), looks_at, decision, frozenset(families))
    return found


REWRITES: Mapping[str, Rule[Any, Any]] = MappingProxyType(_rules())
"""By id, in the order in which the passes run first."""
