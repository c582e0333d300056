"""What recorded conversions say of every rule, as ``ptqlab rules evidence`` wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.rulebook.rule import Rule

FILE = "evidence.json"
"""Beside this module."""
_MOST_NAMES = 3


class RuleEvidence(BaseModel):
    """What the cases say of one rule.

    Attributes:
        cases: how many show it.
        networks: of how many networks these are.
        nodes: at how many nodes and tensors.
        contradicted: at how many nodes and tensors the original did otherwise.
        contradictions: some of these, as ``case: node``.
        needed: some of the cases whose placement is another one without the rule, the smallest first.
        apart: at how many nodes and tensors networks show it that were kept apart while rules were looked for, ...
        apart_contradicted: ... and at how many of theirs the original did otherwise.
        gained: how many more decisions in such cases of few nodes are the original's, than are not, with the rule.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cases: int = 0
    networks: int = 0
    nodes: int = 0
    contradicted: int = 0
    contradictions: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    apart: int = 0
    apart_contradicted: int = 0
    gained: int = 0

    @property
    def provisional(self) -> bool:
        """Whether one network at the most shows the rule."""
        return self.networks <= 1

    def __str__(self) -> str:
        if not self.cases:
            found = "no recorded conversion shows it"
        else:
            cases = "1 case" if self.cases == 1 else f"{self.cases} cases"
            networks = "1 network" if self.networks == 1 else f"{self.networks} networks"
            found = f"{self.nodes} nodes in {cases} of {networks}" if self.nodes else f"{cases} of {networks}"
        if self.provisional and self.cases:
            found += ", so it is provisional"
        if self.contradicted:
            names = ", ".join(self.contradictions[:_MOST_NAMES])
            rest = " and others" if self.contradicted > _MOST_NAMES else ""
            found += f"; the original did otherwise at {self.contradicted}: {names}{rest}"
        if self.apart or self.apart_contradicted:
            found += f"; kept apart: {self.apart} nodes, {self.apart_contradicted} otherwise"
        if self.needed:
            found += f"; the smallest case that needs it: {self.needed[0]}; agreement gained: {self.gained}"
        return found


@cache
def load_evidence() -> Mapping[str, RuleEvidence]:
    """By id of the rule; empty where no file was written."""
    path = Path(__file__).with_name(FILE)
    if not path.is_file():
        return MappingProxyType({})
    content = json.loads(path.read_text(encoding="utf-8"))
    return MappingProxyType({rule: RuleEvidence.model_validate(found) for rule, found in content.items()})


def is_provisional(rule: Rule[Any, Any]) -> bool:
    """Whether one network at the most shows ``rule``."""
    return evidence_for(rule.id).provisional if rule.measured is None else rule.measured.networks <= 1


def evidence_text(rule: Rule[Any, Any]) -> str:
    """What shows ``rule``, in words."""
    if rule.measured is None:
        return str(evidence_for(rule.id))
    return f"{rule.measured.how}{'; one network, so it is provisional' if is_provisional(rule) else ''}"


def evidence_for(rule: str) -> RuleEvidence:
    """The evidence for the rule of that id."""
    return load_evidence().get(rule, RuleEvidence())
