"""Transposes that only move axes of length 1 are reshapes, and the other way round; equal movements are shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import MARK_MADE, attribute, static_shape
from engine.optimize.base import (
    NodePass,
    absorb_next,
    add_initializer,
    graph_of,
    initializer_of,
    is_standard,
    make_node,
    replace_constant,
    stand_for,
    substitute,
)
from engine.optimize.contract import GraphPass
from engine.optimize.dense import MARK_PRODUCT
from engine.terms import Compatibility


class TransposeToReshape(NodePass):
    """A ``Transpose`` that keeps the order of elements becomes the ``Reshape`` ``<node>_reshape`` beside another one.

    Alone it stays (reference/operators.md, the case of LSTM).
    """

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        shape, perm = static_shape(node.inputs[0]), attribute(node, "perm")
        if shape is None or perm is None or not keeps_order(node) or not _beside_reshape(node) or _is_appended_to(node):
            return False
        target = np.asarray([shape[axis] for axis in perm], np.int64)
        reshape = make_node(
            "Reshape",
            [node.inputs[0], add_initializer(graph_of(node), f"{node.name}_reshape_target_shape", target)],
            name=f"{node.name}_reshape",
            output=f"{node.name}_reshaped",
            like=node.outputs[0],
        )
        substitute(node, [reshape])
        return True


def _beside_reshape(node: ir.Node) -> bool:
    before = None if node.inputs[0] is None else node.inputs[0].producer()
    return is_standard(before, "Reshape") or is_standard(sole_reader(node.outputs[0], once=True), "Reshape")


def keeps_order(transpose: ir.Node) -> bool:
    """Whether ``transpose`` only moves axes of length 1."""
    shape, perm = static_shape(transpose.inputs[0]), attribute(transpose, "perm")
    moved = None if shape is None or perm is None else [axis for axis in perm if shape[axis] != 1]
    return moved is not None and moved == sorted(moved)


class ReshapeToTranspose(NodePass):
    """A ``Reshape`` that only moves axes of length 1 becomes the ``Transpose`` ``<node>_transpose`` beside another one.

    In front of it (attention with one head per window in ``swin``) and behind it (mixers, 6 conversions; keys of one
    head, 2), where it was no ``Transpose`` before (``crnn_lstm``). The two are one then.
    """

    op_types = frozenset({"Reshape"})

    def rewrite(self, node: ir.Node) -> bool:
        before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
        if before is None or after is None or not _beside_transpose(node):
            return False
        if initializer_of(node.inputs[1]) is None:
            return False
        perm = _as_permutation(before, after)
        if perm is None:
            return False
        name, source, result = f"{node.name}_transpose", node.inputs[0], node.outputs[0]
        made = make_node("Transpose", [source], name=name, output=f"{name}d", like=result, attributes={"perm": perm})
        substitute(node, [made])
        return True


def _beside_transpose(node: ir.Node) -> bool:
    if is_standard(sole_reader(node.outputs[0], once=True), "Transpose"):
        return True
    was_transpose = node.metadata_props.get(MARK_MADE) == TransposeToReshape.__name__
    return not was_transpose and _sole_producer(node, "Transpose") is not None


def _as_permutation(before: tuple[int, ...], after: tuple[int, ...]) -> list[int] | None:
    """The permutation of axes that a reshape between shapes of one rank is; ``None`` where it is none."""
    wide = [axis for axis, size in enumerate(before) if size != 1]
    if len(before) != len(after) or [before[axis] for axis in wide] != [size for size in after if size != 1]:
        return None
    single = iter(axis for axis, size in enumerate(before) if size == 1)
    ordered = iter(wide)
    return [next(single) if size == 1 else next(ordered) for size in after]


class CancelAroundReshape(NodePass):
    """Transpose, Reshape that moves axes of length 1 or makes a line of pixels, Transpose: one ``Reshape``.

    Where the order stays. The rows of attention in front of a product with a matrix (``min_ln``, ``vit_sep``,
    ``detr``); maps with channels last, flattened in front of a product (:func:`_makes_a_line`).
    """

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        found = _transposed_and_reshaped(node)
        if found is None:
            return False
        first, reshape = found
        shapes = [static_shape(value) for value in (first.inputs[0], first.outputs[0], reshape.outputs[0])]
        result = static_shape(node.outputs[0])
        if result is None or any(shape is None for shape in shapes):
            return False
        source, inner, outer = (shape for shape in shapes if shape is not None)
        moves_ones = [size for size in inner if size != 1] == [size for size in outer if size != 1]
        if not moves_ones and not _makes_a_line(first, reshape, node):
            return False
        elements = np.arange(int(np.prod(source))).reshape(source).transpose(attribute(first, "perm", ()))
        if np.any(np.diff(elements.reshape(outer).transpose(attribute(node, "perm", ())).reshape(-1)) != 1):
            return False
        reshape.replace_input_with(0, first.inputs[0])
        target = np.asarray(result, np.int64)
        reshape.replace_input_with(1, add_initializer(graph_of(node), f"{node.name}_reshape_target_shape", target))
        absorb_next(reshape, node)
        return True


def _makes_a_line(first: ir.Node, reshape: ir.Node, last: ir.Node) -> bool:
    """Whether ``reshape`` makes a line of two axes, or two axes of a line, between Transposes that undo each other.

    Of four dimensions, and where the first of the two is as long as no other axis: the original finds it by its size.
    230 of 232 asked on bayes-e, 90 of 91 on bernoulli2, 41 of 41 on bayes; not between other Transposes, of other
    ranks, to two other axes.
    """
    before, after = static_shape(reshape.inputs[0]) or (), static_shape(reshape.outputs[0]) or ()
    perms = [attribute(each, "perm", ()) for each in (first, last)]
    if len(before) != len(after) or len(before) != _MAP_RANK or [perms[0][axis] for axis in perms[1]] != [0, 1, 2, 3]:
        return False
    for axis in range(1, _MAP_RANK - 1):
        for pair, line, whole in ((before, after, before), (after, before, after)):
            first_size, ends = pair[axis], (*pair[:axis], *pair[axis + 2 :])
            joined = sorted(line[axis : axis + 2]) == [1, first_size * pair[axis + 1]]
            if joined and 1 not in pair[axis : axis + 2] and ends == (*line[:axis], *line[axis + 2 :]):
                return whole.count(first_size) == 1
    return False


_MAP_RANK = 4


class ReshapeBeforeTransposes(NodePass):
    """Transpose, Reshape that only drops axes of length 1, Transpose: the ``Reshape`` goes first, one Transpose stays.

    The prototypes that the tokens of YOLOv13n are compared with (its published log, twice: only the last Transpose is
    listed behind the ``Gemm``). So does one that appends an axis of length 1, in front of the steps of an ``LSTM``: the
    appended one is the first of that length then (8 of 8 asked on two marches, one drawn).
    """

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        found = _transposed_and_reshaped(node)
        if found is None:
            return False
        first, reshape = found
        source, inner, outer = (static_shape(v) for v in (first.inputs[0], first.outputs[0], reshape.outputs[0]))
        if source is None or inner is None or outer is None:
            return False
        perm = list(attribute(first, "perm", ()))
        # axes of the source, as the reshape has them
        order = _appended(perm, source) if _is_appended_to(first) else None
        if order is None:
            axes = axes_without_ones(inner, outer)
            if axes is None:
                return False
            order = [perm[axis] for axis in axes]
        kept = sorted(order)
        sizes = [(*source, 1)[axis] for axis in kept]
        reshape.replace_input_with(0, first.inputs[0])
        replace_constant(reshape, 1, np.asarray(sizes, np.int64))
        reshape.outputs[0].shape = ir.Shape(sizes)
        perm = [kept.index(order[axis]) for axis in attribute(node, "perm", ())]
        node.attributes["perm"] = ir.AttrInt64s("perm", perm)
        graph_of(node).remove(first, safe=True)
        return True


def _is_appended_to(first: ir.Node) -> bool:
    """Whether the Transpose ``first`` moves what no Reshape gives to a Reshape and Transpose that append an axis."""
    reader = sole_reader(first.outputs[0])
    inner = static_shape(first.outputs[0])
    if inner is None or not is_standard(reader, "Reshape") or reader is None:
        return False
    is_behind = is_standard(None if first.inputs[0] is None else first.inputs[0].producer(), "Reshape")
    last = sole_reader(reader.outputs[0])
    return not is_behind and static_shape(reader.outputs[0]) == (*inner, 1) and is_standard(last, "Transpose")


def _appended(perm: Sequence[int], source: tuple[int, ...]) -> list[int]:
    """``perm`` of ``source`` and an axis of length 1 behind it: of the axes of that length the last ones come first."""
    sizes = (*source, 1)
    ones = iter(sorted((axis for axis, size in enumerate(sizes) if size == 1), reverse=True))
    return [next(ones) if sizes[axis] == 1 else axis for axis in (*perm, len(source))]


def axes_without_ones(before: tuple[int, ...], after: tuple[int, ...]) -> list[int] | None:
    """The axes of ``before`` that a reshape to ``after`` keeps; ``None`` unless it only drops axes of length 1."""
    kept: list[int] = []
    for axis, size in enumerate(before):
        if len(kept) < len(after) and size == after[len(kept)]:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(after) < len(before) else None


def _transposed_and_reshaped(node: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    """The ``Transpose`` and the ``Reshape`` to a constant shape behind it that only the Transpose ``node`` reads.

    ``None`` too where one of the two says no order of axes.
    """
    reshape = _sole_producer(node, "Reshape")
    first = None if reshape is None else _sole_producer(reshape, "Transpose")
    if reshape is None or first is None or initializer_of(reshape.inputs[1]) is None:
        return None
    return None if None in (attribute(first, "perm"), attribute(node, "perm")) else (first, reshape)


def _sole_producer(node: ir.Node, op_type: str) -> ir.Node | None:
    """The node of ``op_type`` whose output ``node`` alone reads, as its first input."""
    value = node.inputs[0]
    producer = None if value is None else value.producer()
    return (
        producer
        if value is not None and is_standard(producer, op_type) and sole_reader(value, once=True) is node
        else None
    )


class ShareMovements(GraphPass):
    """Of several ``Reshape`` or ``Transpose`` of one tensor that do the same, only the first stays.

    Of a Reshape the same numbers must be given: ``[-1, 144]`` is not ``[1, 144]`` (4 of 4; nine pairs of equal ones are
    one). Not those behind the convolution of a matrix product, which has one for every reader (``swin``); those behind
    others do not stay either (2 of 2 asked on two marches). Where a later one is an output the first is that output,
    under its own name, and two outputs are refused (:func:`~engine.optimize.base.stand_for`); with ``compatibility:
    clean`` both stay.
    """

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._renames = compatibility is Compatibility.ORIGINAL

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        first: dict[tuple[ir.Value, str, tuple[int, ...]], ir.Node] = {}
        modified = False
        for node in tuple(model.graph):
            source = node.inputs[0] if is_standard(node, "Reshape", "Transpose") else None
            producer = None if source is None else source.producer()
            if source is None or (producer is not None and MARK_PRODUCT in producer.metadata_props):
                continue
            given = _numbers(node)
            if given is None:
                continue
            other = first.setdefault((source, node.op_type, given), node)
            if other is not node and (self._renames or not node.outputs[0].is_graph_output()):
                stand_for(other.outputs[0], node.outputs[0])
                model.graph.remove(node, safe=True)
                modified = True
        return ir.passes.PassResult(model, modified)


def _numbers(node: ir.Node) -> tuple[int, ...] | None:
    """The shape that a ``Reshape`` is given, as it is written, or the order of a ``Transpose``."""
    if node.op_type == "Transpose":
        perm = attribute(node, "perm")
        return None if perm is None else tuple(perm)
    target = initializer_of(node.inputs[1])
    return None if target is None else tuple(int(each) for each in target)
