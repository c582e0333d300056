"""What moves values without computing with them, and where it takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from engine.facts.devices import asked_late, is_quantised, joins_on_request, on_bpu, refused_late
from engine.graph import float_readers
from engine.ir import MARK_LATE, before_calibration, is_calibration
from engine.ops.core.base import Tie
from engine.ops.registry import rule_for

Nodes = Callable[[ir.Node], bool]
"""Which nodes are meant."""


def is_passive(node: ir.Node) -> bool:
    """Whether ``node`` runs on the BPU only where a BPU node reads it: it moves values, or chooses among them."""
    rule = rule_for(node)
    return rule is not None and rule.is_passive(node)


def keeps_scale(node: ir.Node) -> bool:
    """Whether what ``node`` gives has the scale of what it reads: it moves values, or chooses among them."""
    rule = rule_for(node)
    return rule is not None and rule.tie(node) is Tie.OUTPUT_TAKES_INPUT


def moves_sums(node: ir.Node) -> bool:
    """Whether ``node`` moves the int32 sums of one tensor as they are; what leaves the BPU late does not."""
    rule = rule_for(node)
    if rule is None or MARK_LATE in node.metadata_props:
        return False
    return rule.moves_sums and rule.passive and len(rule.activations(node)) == 1


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


def reaches_output(value: ir.Value) -> bool:
    """Whether ``value`` is an output of the network, or nodes on the CPU alone make one of it.

    A Sigmoid, Tanh and LeakyRelu in front of two LRN, of which one is read by a convolution, and as outputs that an
    LRN in front of a convolution reads besides: 6 of 6 asked are computed as at the end.
    """
    found = moved_to(value, lambda node: not is_quantised(node) or asked_late(node))
    return any(map(_is_output, found))


def ends_behind(readers: Sequence[ir.Node]) -> bool:
    """Whether nothing that follows from ``readers``, which are on the CPU, is quantised."""
    seen = dict.fromkeys(readers)
    for node in (pending := list(seen)):
        following = [reader for value in node.outputs for reader in float_readers(value)]
        if any(map(is_quantised, following)):
            return False
        pending += [reader for reader in following if reader not in seen]
        seen |= dict.fromkeys(following)
    return True


def _is_output(value: ir.Value) -> bool:
    calibrated = (usage.node.outputs[0] for usage in value.uses() if is_calibration(usage.node))
    return any(each.is_graph_output() for each in (value, *calibrated))


WAITING = frozenset({"HzChannelShuffle", "Pad", "Reshape", "Resize", "Slice", "SpaceToDepth", "Transpose"})
"""Movements for which nothing is quantised, but for what is behind them (44 of 44 tensors asked on two marches).

MaxPool, DepthToSpace, Concat and Max want their inputs in integers where their results are, a Split, Gather and
ReduceMax on the BPU always.
"""


STAYING = frozenset({"Expand", "Gather", "ReduceMax", "Tile"})
"""What wants its input in integers where it stays on the BPU, and waits as movements do where it left late."""


def is_wanted(value: ir.Value) -> bool:
    """Whether ``value`` itself is wanted in integers: not only what movements make of it."""
    return any(map(_wants, float_readers(value)))


def _wants(reader: ir.Node) -> bool:
    """Whether ``reader`` wants what it reads in integers."""
    if not is_quantised(reader) or waits(reader):
        return False
    return not is_passive(reader) or any(map(is_wanted, reader.outputs))


def is_joined_for_use(value: ir.Value) -> bool:
    """Whether a Concat on the BPU joins ``value``, of which movements and maxima make what is wanted in integers.

    Behind a shuffle, Slice, Resize, Transpose and MaxPool: 6 of 6 asked. It matters for results of functions alone:
    other operands take the scale of the Concat only where that itself is wanted (``shuffles/units_bayes-e``).
    """
    quantised = filter(is_quantised, float_readers(value))
    joins = (reader for reader in quantised if reader.op_type == "Concat" and not joins_on_request(reader))
    return any(_is_wanted_behind(result) for join in joins for result in join.outputs)


def _is_wanted_behind(value: ir.Value) -> bool:
    """Whether ``value``, or what movements and maxima make of it, is wanted in integers."""
    behind = (result for reader in float_readers(value) if _moves_on(reader) for result in reader.outputs)
    return is_wanted(value) or any(map(_is_wanted_behind, behind))


def joined_with(value: ir.Value) -> list[ir.Value]:
    """``value``, and all that has its type because Concats and movements on either device join it with that.

    Through Concats of Concats, Reshapes, Transposes, Slices and maxima, and another operand that two Concats share; not
    through averages, functions on the CPU or Concats that are asked for there (35 of 35 branches on bayes-e).
    """
    found, seen = [value], {value}
    for each in found:
        producer = each.producer()
        for node in (*([] if producer is None else [producer]), *float_readers(each)):
            rule = None if node.op_type in _AVERAGES or joins_on_request(node) else rule_for(node)
            if rule is None or not is_passive(node) or rule.tie(node) not in _ONE_TYPE:
                continue
            read = (before_calibration(item) for item in map(node.inputs.__getitem__, rule.activations(node)) if item)
            made = [item for item in (*read, *node.outputs) if item not in seen]
            found += made
            seen.update(made)
    return found


_ONE_TYPE = (Tie.OUTPUT_TAKES_INPUT, Tie.OPERANDS_TAKE_OUTPUT)
"""How a movement and a Concat are tied."""
_AVERAGES = ("AveragePool",)
"""What does not give what it reads a type: it stays in int32."""


def waits(node: ir.Node) -> bool:
    """Whether nothing is quantised for ``node`` but what is behind it."""
    return node.op_type in WAITING or (node.op_type in STAYING and not on_bpu(node))


def first_wanted(value: ir.Value, order: Mapping[ir.Node, int]) -> ir.Value | None:
    """What fewest movements make of ``value`` that is wanted in integers; of several, the first in the graph.

    What is joined counts even where nothing but movements follows. Of what a Concat gives, what another one joins
    counts only where nothing else is wanted: the original decides on the result of a Concat before operands of those
    behind it have a scale (97 of 97 tensors of 20 kinds, on bayes-e and bernoulli2).

    Args:
        value: a tensor.
        order: position of every node in the graph.

    Returns:
        None where ``value`` itself is wanted, or nothing that is moved from it.
    """
    if not _is_joined(value):
        return _first(value, order, lambda moved: _is_wanted_where_asked(moved) or is_joined_for_use(moved))
    return _first(value, order, _is_wanted_unjoined) or _first(value, order, is_wanted)


def _is_wanted_where_asked(value: ir.Value) -> bool:
    """Whether ``value`` itself is wanted, by another node than a Concat that is asked for on the CPU."""
    return any(_wants(reader) and not joins_on_request(reader) for reader in float_readers(value))


def _first(value: ir.Value, order: Mapping[ir.Node, int], counts: Callable[[ir.Value], bool]) -> ir.Value | None:
    """What fewest movements make of ``value`` that counts; None where ``value`` itself does."""
    if counts(value):
        return None
    level, seen = [value], {value}
    while level:
        made = [
            result
            for moved in level
            for reader in sorted(dict.fromkeys(float_readers(moved)), key=order.__getitem__)
            if _moves_on(reader)
            for result in reader.outputs
            if result not in seen
        ]
        for result in made:
            if counts(result):
                return result
        seen.update(made)
        level = made
    return None


def _is_joined(value: ir.Value) -> bool:
    """Whether a Concat on the BPU gives ``value``."""
    node = value.producer()
    return node is not None and node.op_type == "Concat" and is_quantised(node)


def _is_wanted_unjoined(value: ir.Value) -> bool:
    """Whether another node than a Concat wants ``value`` in integers."""
    return any(_wants(reader) for reader in float_readers(value) if reader.op_type != "Concat")


def _moves_on(node: ir.Node) -> bool:
    rule = rule_for(node)
    tie = None if rule is None or not is_quantised(node) else rule.tie(node)
    return tie is not None and (waits(node) or tie is Tie.OUTPUT_TAKES_INPUT)


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


def _moves_late(node: ir.Node) -> bool:
    return refused_late(node) and keeps_scale(node)


def _is_left_to_floats(value: ir.Value) -> bool:
    """Whether nothing that is quantised computes with ``value``, which a movement gives that left the BPU late.

    The score of a token on bernoulli2, a Linear of one column, whose sum is int8 (11 of 11 asked).
    """
    computes = any(refused_late(reader) and not keeps_scale(reader) for reader in float_readers(value))
    return not computes and _reaches_floats_alone(value)


def _reaches_floats_alone(value: ir.Value) -> bool:
    """Whether no BPU node computes with ``value``, however BPU nodes, or movements that left the BPU late, move it."""
    for reader in float_readers(value):
        rule = rule_for(reader)
        if joins_on_request(reader):
            return False
        if _moves_late(reader) and not all(map(_is_left_to_floats, reader.outputs)):
            return False
        if not on_bpu(reader) or rule is None:
            continue
        if not (rule.moves_sums and rule.passive) or not all(map(_reaches_floats_alone, reader.outputs)):
            return False
    return True
