"""Which float nodes become one quantised node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from engine.ir import MARK_ON, is_calibration
from engine.march import March
from engine.ops.registry import rule_for

CPU, BPU = "CPU", "BPU"


def on_bpu(node: ir.Node) -> bool:
    """Whether ``node`` is marked to run on the BPU."""
    return node.metadata_props.get(MARK_ON) == BPU


def only_reader(value: ir.Value) -> ir.Node | None:
    """The node that reads ``value``, where there is just one and ``value`` is no graph output."""
    readers = {usage.node for usage in value.uses()}
    return next(iter(readers)) if len(readers) == 1 and not value.is_graph_output() else None


def chain_of(node: ir.Node, march: March, order: Mapping[ir.Node, int]) -> list[ir.Node]:
    """``node`` and the nodes that it absorbs, in order.

    A calibration node in between says that the tensor exists in integers, so nothing is absorbed across one. A sum of
    two results that could both absorb it is absorbed by the one that is computed last; a sum with anything else by the
    only one that can, which then runs behind the other operand (8 sums with a Resize in four networks).

    Args:
        node: a BPU node.
        march: its march.
        order: position of every node in the graph.
    """
    rule = rule_for(node)
    chain = [node]
    while rule is not None:
        consumer = only_reader(chain[-1].outputs[0])
        if consumer is None or is_calibration(consumer) or not on_bpu(consumer):
            break
        if not rule.absorbs(chain, consumer, march) or _has_later_rival(chain, consumer, march, order):
            break
        chain.append(consumer)
    return chain


def _has_later_rival(chain: Sequence[ir.Node], consumer: ir.Node, march: March, order: Mapping[ir.Node, int]) -> bool:
    """Whether another operand of ``consumer`` is computed after ``chain`` and could absorb ``consumer`` as well."""
    own = chain[-1].outputs[0]
    for value in consumer.inputs:
        other = None if value is None or value is own else value.producer()
        rule = None if other is None or is_calibration(other) or not on_bpu(other) else rule_for(other)
        if (
            other is not None
            and rule is not None
            and order[other] > order[chain[0]]
            and only_reader(other.outputs[0]) is consumer
            and rule.absorbs([other], consumer, march)
        ):
            return True
    return False


def chains(model: ir.Model, march: March) -> list[list[ir.Node]]:
    """All chains of BPU nodes in graph order; every BPU node is in one of them."""
    order = {node: index for index, node in enumerate(model.graph)}
    taken: set[ir.Node] = set()
    found = []
    for node in model.graph:
        if node in taken or is_calibration(node) or not on_bpu(node):
            continue
        chain = chain_of(node, march, order)
        taken.update(chain)
        found.append(chain)
    return found


def float_readers(value: ir.Value) -> list[ir.Node]:
    """Nodes that read ``value``, seen through calibration nodes."""
    readers = []
    for usage in value.uses():
        if is_calibration(usage.node):
            readers += float_readers(usage.node.outputs[0])
        else:
            readers.append(usage.node)
    return readers


def joins(node: ir.Node) -> bool:
    """Whether ``node`` brings a second activation into a chain."""
    rule = rule_for(node)
    return rule is not None and len(rule.activations(node)) > 1


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
    moves = rule.moves_sums and rule.passive and len(rule.activations(node)) == 1
    return rule.has_one_scale(node) or (moves and source is not None and is_exact_sum(source))


def _reaches_floats_alone(value: ir.Value) -> bool:
    """Whether no BPU node computes with ``value``, however BPU nodes move it."""
    for reader in float_readers(value):
        rule = rule_for(reader)
        if not on_bpu(reader) or rule is None:
            continue
        moved = rule.moves_sums and rule.passive
        if not moved or not all(map(_reaches_floats_alone, reader.outputs)):
            return False
    return True
