"""Which rules decided what a node is: their ids, kept in its metadata, so that every later stage can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from engine.graph.scales import scale_source
from engine.ir import MARK_MADE, MARK_RULE, is_calibration
from engine.rulebook.book import RULES
from engine.rulebook.evidence import is_provisional
from engine.rulebook.name import NAME_TABLE
from engine.rulebook.rewrite import rewrite_id
from engine.rulebook.rule import Rule


def note(node: ir.Node, rule: str) -> None:
    """Add ``rule`` to the rules that decided ``node``."""
    node.metadata_props[MARK_RULE] = ",".join(dict.fromkeys((*_noted(node), rule)))


def rules_of(node: ir.Node) -> tuple[str, ...]:
    """Ids of the rules that made and decided ``node``, and the scale of what it calibrates."""
    scale = scale_source(node).rules if is_calibration(node) else ()
    made = [rewrite_id(node.metadata_props[MARK_MADE])] if MARK_MADE in node.metadata_props else []
    return tuple(dict.fromkeys((*made, *_noted(node), *scale)))


def rules_behind(node: ir.Node) -> tuple[str, ...]:
    """Ids of the rules that decided ``node``, and how what it reads is quantised; not what anything is called."""
    producers = [None if value is None else value.producer() for value in node.inputs]
    calibrations = [each for each in producers if each is not None and is_calibration(each)]
    decided = dict.fromkeys(rule for each in (node, *calibrations) for rule in rules_of(each))
    return tuple(rule for rule in decided if not rule.startswith(f"{NAME_TABLE}."))


def costly(*models: ir.Model) -> Mapping[Rule[Any, Any], tuple[str, ...]]:
    """The rules that cost accuracy and decided something, and the nodes of ``models`` where; in the order of rules."""
    nodes: dict[str, dict[str, None]] = {}
    for model in models:
        for node in model.graph:
            for rule in _noted(node):
                nodes.setdefault(rule, {})[str(node.name)] = None
    return {rule: tuple(nodes[rule.id]) for rule in RULES.values() if rule.costs_accuracy and rule.id in nodes}


def remark(node: ir.Node) -> str:
    """What a table says of ``node``: the rules that cost accuracy there; empty where none does."""
    return ", ".join(told(RULES[rule]) for rule in _noted(node) if rule in RULES and RULES[rule].costs_accuracy)


def told(rule: Rule[Any, Any]) -> str:
    """How a table or log names ``rule``."""
    return f"rule {rule.id}{' (provisional)' if is_provisional(rule) else ''}"


def _noted(node: ir.Node) -> tuple[str, ...]:
    return tuple(filter(None, node.metadata_props.get(MARK_RULE, "").split(",")))
