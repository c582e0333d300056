"""What moves values without computing with them, and where it takes them."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from engine.facts.devices import on_bpu
from engine.graph import float_readers
from engine.ir import before_calibration
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for

Nodes = Callable[[ir.Node], bool]
"""Which nodes are meant."""


def is_passive(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU only where a BPU node reads it: it moves values, or chooses among them."""
    rule = rule_for(node)
    return rule is not None and rule.passive


def keeps_scale(node: ir.Node) -> bool:
    """Whether what ``node`` gives has the scale of what it reads: it moves values, or chooses among them."""
    rule = rule_for(node)
    return rule is not None and rule.tie(node) is Tie.OUTPUT_TAKES_INPUT


def moves_sums(node: ir.Node) -> bool:
    """Whether ``node`` moves the int32 sums of one tensor as they are."""
    rule = rule_for(node)
    return rule is not None and rule.moves_sums and rule.passive and len(rule.activations(node)) == 1


def moved_to(value: ir.Value, through: Nodes, *, past_calibrations: bool = True) -> list[ir.Value]:
    """``value``, and all that nodes for which ``through`` holds make of it.

    Args:
        value: a tensor.
        through: nodes that count.
        past_calibrations: whether what reads the calibrated form of a tensor counts too.
    """
    found, seen = [value], {value}
    for moved in found:
        readers = float_readers(moved) if past_calibrations else [usage.node for usage in moved.uses()]
        for reader in readers:
            if through(reader):
                found += [result for result in reader.outputs if result not in seen]
                seen.update(reader.outputs)
    return found


def moved_alone(value: ir.Value, through: Nodes) -> list[ir.Value]:
    """``value``, and what nodes for which ``through`` holds make of it one after another, each its only reader."""
    found = [value]
    while len(readers := float_readers(before_calibration(found[-1]))) == 1 and through(readers[0]):
        found.append(readers[0].outputs[0])
    return found


def moved_from(value: ir.Value, through: Nodes) -> ir.Value:
    """What nodes for which ``through`` holds made ``value`` of, by their first inputs; ``value`` where none did."""
    while (node := value.producer()) is not None and through(node):
        source = node.inputs[0]
        if source is None:
            break
        value = source
    return value


def is_computed_with(value: ir.Value, reads: Nodes, through: Nodes) -> bool:
    """Whether a node for which ``reads`` holds, and not ``through``, reads ``value`` or what it is moved to.

    Args:
        value: a tensor.
        reads: nodes that count.
        through: what only moves; values are followed through those that count.
    """

    def moves(node: ir.Node) -> bool:
        return reads(node) and through(node)

    return any(
        reads(reader) and not through(reader) for moved in moved_to(value, moves) for reader in float_readers(moved)
    )


def is_exact_sum(value: ir.Value) -> bool:
    """Whether ``value`` is an int32 sum of one scale that BPU nodes only move and nothing but float consumers read.

    As the results of global average pools at the end of ``activations_a`` and ``squeezenet``, and the convolutions to
    one channel before the boxes of ``yolo11`` and ``yolov8_decode``.
    """
    node = value.producer()
    rule = None if node is None or not on_bpu(node) else rule_for(node)
    if node is None or rule is None or not _reaches_floats_alone(value):
        return False
    source = node.inputs[0]
    return rule.has_one_scale(node) or (moves_sums(node) and source is not None and is_exact_sum(source))


def _reaches_floats_alone(value: ir.Value) -> bool:
    """Whether no BPU node computes with ``value``, however BPU nodes move it."""
    for reader in float_readers(value):
        rule = rule_for(reader)
        if not on_bpu(reader) or rule is None:
            continue
        if not (rule.moves_sums and rule.passive) or not all(map(_reaches_floats_alone, reader.outputs)):
            return False
    return True
