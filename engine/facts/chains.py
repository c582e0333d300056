"""Which float nodes become one quantised node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from engine.chips import Chip
from engine.facts.devices import on_bpu
from engine.graph import sole_reader
from engine.ir import MARK_SUMMAND, is_calibration
from engine.ops.registry import rule_for


def chain_of(node: ir.Node, march: Chip, order: Mapping[ir.Node, int]) -> list[ir.Node]:
    """``node`` and the nodes that it absorbs, in order.

    A calibration node in between says that the tensor exists in integers, so nothing is absorbed across one. A sum of
    two results that could both absorb it is absorbed by the one that is computed last; a sum with anything else by the
    only one that can, which then runs behind the other operand (8 sums with a Resize in four networks). Of two results
    of which int16 is asked the one that is asked first absorbs the sum (``MARK_SUMMAND``).

    Args:
        node: a BPU node.
        march: its march.
        order: position of every node in the graph.
    """
    rule = rule_for(node)
    chain = [node]
    while rule is not None:
        consumer = sole_reader(chain[-1].outputs[0])
        if consumer is None or is_calibration(consumer) or not on_bpu(consumer):
            break
        if not rule.absorbs(chain, consumer, march) or _has_later_rival(chain, consumer, march, order):
            break
        if rule.declines(chain, consumer, march):
            break
        chain.append(consumer)
    return chain


def _has_later_rival(chain: Sequence[ir.Node], consumer: ir.Node, march: Chip, order: Mapping[ir.Node, int]) -> bool:
    """Whether another operand of ``consumer`` is computed after ``chain`` and could absorb ``consumer`` as well.

    A sum that is marked is absorbed by what gives the operand that the mark names.
    """
    own = chain[-1].outputs[0]
    marked = consumer.metadata_props.get(MARK_SUMMAND)
    if marked is not None:
        return consumer.inputs[int(marked)] is not own
    for value in consumer.inputs:
        other = None if value is None or value is own else value.producer()
        rule = None if other is None or is_calibration(other) or not on_bpu(other) else rule_for(other)
        if (
            other is not None
            and rule is not None
            and order[other] > order[chain[0]]
            and sole_reader(other.outputs[0]) is consumer
            and rule.absorbs([other], consumer, march)
        ):
            return True
    return False


def chains(model: ir.Model, march: Chip) -> list[list[ir.Node]]:
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


def joins(node: ir.Node) -> bool:
    """Whether ``node`` brings a second activation into a chain."""
    rule = rule_for(node)
    return rule is not None and len(rule.activations(node)) > 1
