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

from engine.march import MARCHES, load_march
from engine.optimize import pipeline
from engine.rulebook.patterns import op
from engine.rulebook.rule import ALL, BAYES, BERNOULLI, Pattern, Rule
from engine.terms import March, measured_march

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
    kinds: dict[type[Any], set[March]] = {}
    operators: dict[type[Any], set[str]] = {}
    for march in MARCHES:
        for item in pipeline(load_march(march)):
            kinds.setdefault(type(item), set()).add(March(march))
            operators.setdefault(type(item), set()).update(getattr(item, "op_types", ()))
    found = {}
    for kind, measured in kinds.items():
        chips = frozenset(each for each in March if measured_march(each) in measured)
        known = next((group for group in (ALL, BAYES, BERNOULLI) if group == chips), chips)
        anything: Pattern[Any] = Pattern("is any", lambda site: True)
        looks_at = op(*sorted(operators[kind])) if operators[kind] else anything
        found[rewrite_id(kind.__name__)] = Rule(
            rewrite_id(kind.__name__), _sentence(kind), looks_at, f"is looked at by {kind.__name__}", known
        )
    return found


REWRITES: Mapping[str, Rule[Any, Any]] = MappingProxyType(_rules())
"""By id, in the order in which the passes run first."""
