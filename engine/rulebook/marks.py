"""Which rules decided what a node is: their ids, kept in its metadata, so that every later stage can tell."""

from __future__ import annotations

import onnx_ir as ir

from engine.graph.scales import scale_source
from engine.ir import MARK_MADE, MARK_RULE, is_calibration
from engine.rulebook.rewrite import rewrite_id


def note(node: ir.Node, rule: str) -> None:
    """Add ``rule`` to the rules that decided ``node``."""
    node.metadata_props[MARK_RULE] = ",".join(dict.fromkeys((*_noted(node), rule)))


def rules_of(node: ir.Node) -> tuple[str, ...]:
    """Ids of the rules that made and decided ``node``, and the scale of what it calibrates."""
    scale = scale_source(node).rules if is_calibration(node) else ()
    made = [rewrite_id(node.metadata_props[MARK_MADE])] if MARK_MADE in node.metadata_props else []
    return tuple(dict.fromkeys((*made, *_noted(node), *scale)))


def rules_behind(node: ir.Node) -> tuple[str, ...]:
    """Ids of the rules that decided ``node``, and how what it reads is quantised."""
    producers = [None if value is None else value.producer() for value in node.inputs]
    calibrations = [each for each in producers if each is not None and is_calibration(each)]
    return tuple(dict.fromkeys(rule for each in (node, *calibrations) for rule in rules_of(each)))


def _noted(node: ir.Node) -> tuple[str, ...]:
    return tuple(filter(None, node.metadata_props.get(MARK_RULE, "").split(",")))
