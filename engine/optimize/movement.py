"""Operators that drop an axis keep it and reshape afterwards; a join takes in the reshape behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.chips import GraphRules
from engine.graph import sole_reader
from engine.ir import attribute, static_shape
from engine.optimize.base import (
    NodePass,
    absorb_next,
    add_initializer,
    axes_of,
    graph_of,
    initializer_of,
    is_standard,
    make_node,
    substitute,
)

_MOST_AXES = 4
"""Axes of what a Concat joins along the axis that a Transpose behind it puts elsewhere."""


class KeepReducedAxis(NodePass):
    """Operators that drop one axis keep it, and a ``Reshape`` drops it: BPU operators keep the number of dimensions.

    Reductions over one axis, ``ArgMax`` and ``ArgMin`` over the channels, ``Gather`` of one element, whose position
    becomes an int32 (39 of 39 in six conversions). Recorded are three to five dimensions; nothing recorded says that
    two are treated otherwise.
    """

    op_types = frozenset({"ReduceMean", "ReduceSum", "ReduceMax", "ArgMax", "ArgMin", "Gather"})

    def __init__(self, rules: GraphRules) -> None:
        self.rules = rules

    def rewrite(self, node: ir.Node) -> bool:
        source, result = node.inputs[0], node.outputs[0]
        shape, dropped = static_shape(source), static_shape(result)
        axis = None if shape is None else self._dropped_axis(node, len(shape))
        if shape is None or dropped is None or axis is None:
            return False
        graph = graph_of(node)
        inputs = list(node.inputs)
        attributes = {name: attr.value for name, attr in node.attributes.items()}
        indices = initializer_of(node.inputs[1]) if node.op_type == "Gather" else None
        if indices is not None and inputs[1] is not None:
            inputs[1] = add_initializer(graph, f"{node.name}{inputs[1].name}", indices.reshape(-1).astype(np.int32))
        else:
            attributes["keepdims"] = 1
        kept_name, reshape_name, shape_name = _names(node)
        kept = make_node(
            node.op_type,
            inputs,
            name=str(node.name),
            output=kept_name,
            like=result,
            shape=(*shape[:axis], 1, *shape[axis + 1 :]),
            attributes=attributes,
        )
        reshape = make_node(
            "Reshape",
            [kept.outputs[0], add_initializer(graph, shape_name, np.asarray(dropped, np.int64))],
            name=reshape_name,
            output=f"{node.name}_reshaped",
            like=result,
        )
        substitute(node, [kept, reshape])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One that drops an axis of a known shape."""
        shape = static_shape(node.inputs[0])
        known = shape is not None and static_shape(node.outputs[0]) is not None
        return known and self._dropped_axis(node, len(shape or ())) is not None

    def _dropped_axis(self, node: ir.Node, rank: int) -> int | None:
        """The single axis that ``node`` drops; ``None`` where it drops none, all, several or another kind."""
        if rank < 2:
            return None
        if node.op_type == "Gather":
            indices = initializer_of(node.inputs[1])
            return int(attribute(node, "axis", 0)) % rank if indices is not None and indices.ndim == 0 else None
        if attribute(node, "keepdims", 1):
            return None
        if node.op_type in ("ArgMax", "ArgMin"):
            axis = int(attribute(node, "axis", 0)) % rank
            return axis if axis == 1 and self.rules.argmax_keeps_axis else None
        axes = axes_of(node, rank)
        return axes[0] if axes is not None and len(axes) == 1 else None


def _names(node: ir.Node) -> tuple[str, str, str]:
    """Names of the result that keeps its axis, of the ``Reshape`` and of its shape, as the original's."""
    name, result = f"{node.name}_reshape", node.outputs[0].name
    match node.op_type:
        case "Gather":
            return f"replaced_{result}", name, f"{name}_shape"
        case "ArgMax" | "ArgMin":
            return f"4dim_{result}", f"{node.name}_output_reshape", f"{node.name}_output_reshape_shape_dim3"
        case _:
            return f"{node.name}_keepdims_output", name, f"{name}_not_keepdims_shape"


class JoinAlongReshapedAxis(NodePass):
    """A ``Concat`` and the ``Reshape`` or ``Transpose`` that puts its axis in another place join along that place.

    Behind a Reshape operands have one element along both and along all axes before, so that the order of elements
    stays: the states of ``crnn_gru`` and ``min_gru``. Behind a Transpose operands are as before once transposed: hidden
    states of an LSTM that a convolution reads (14 of 14 Concats asked on bayes-e). Of five dimensions a Concat stays in
    front of its Transpose (``sknet``, three of three).
    """

    op_types = frozenset({"Concat"})

    def rewrite(self, node: ir.Node) -> bool:
        found = self._place(node)
        movement = sole_reader(node.outputs[0], once=True)
        if found is None or movement is None:
            return False
        node.attributes["axis"] = ir.AttrInt64("axis", found)
        absorb_next(node, movement)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One behind which the axis moves."""
        return self._place(node) is not None

    @staticmethod
    def _place(node: ir.Node) -> int | None:
        """The axis that joins what ``node`` joins, where its reader puts it; ``None`` where there is none."""
        reshape = sole_reader(node.outputs[0], once=True)
        shapes = {static_shape(value) for value in node.inputs}
        before, after = static_shape(node.outputs[0]), None if reshape is None else static_shape(reshape.outputs[0])
        shape = shapes.pop() if shapes else None
        if shapes or shape is None or before is None or after is None or reshape is None:
            return None
        old = int(attribute(node, "axis")) % len(before)
        if is_standard(reshape, "Transpose"):
            return _transposed_axis(shape, old, attribute(reshape, "perm"))
        if not is_standard(reshape, "Reshape") or len(before) != len(after) or before == after:
            return None
        new = next((axis for axis, size in enumerate(after) if size == before[old] != 1), old)
        moved = [*shape]
        moved[new] = before[old]
        ones = all(size == 1 for size in shape[: max(old, new) + 1])
        return new if new != old and ones and tuple(moved) == after else None


def _transposed_axis(shape: tuple[int, ...], axis: int, perm: Sequence[int] | None) -> int | None:
    """Where ``perm`` puts ``axis`` of operands of ``shape``, which it leaves as they are."""
    moved = [each for each in perm or () if shape[each] != 1]
    if (
        perm is None
        or len(shape) > _MOST_AXES
        or moved != sorted(moved)
        or tuple(shape[each] for each in perm) != shape
    ):
        return None
    place = list(perm).index(axis)
    return place if place != axis else None


class SplitBeforeTranspose(NodePass):
    """A ``Split`` into parts of length 1 reads what a ``Transpose`` exchanges an axis of length 1 with: steps of a GRU.

    The parts have the same shape there, and no Transpose is left of it (``batch_first`` of PyTorch). 8 of 8 asked, of
    three and four dimensions, where a Relu reads the Transpose too. Not parts of two (6 asked), nor behind a Transpose
    that moves more than two axes (``(2, 0, 1)``, 2), nor where several Splits read it: two directions (4).
    """

    op_types = frozenset({"Split"})

    def rewrite(self, node: ir.Node) -> bool:
        axis, value = _exchanged_axis(node), node.inputs[0]
        transpose = None if value is None else value.producer()
        if axis is None or transpose is None or value is None:
            return False
        node.replace_input_with(0, transpose.inputs[0])
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        if not value.uses() and not value.is_graph_output():
            graph_of(node).remove(transpose, safe=True)
        return True

    def remains(self, node: ir.Node) -> bool:
        """A Split that such a Transpose stands before."""
        return _exchanged_axis(node) is not None


def _exchanged_axis(node: ir.Node) -> int | None:
    """The axis along which ``node`` would split what a ``Transpose`` reads; ``None`` where it does not."""
    value = node.inputs[0]
    transpose = None if value is None else value.producer()
    shape = static_shape(value)
    if transpose is None or not is_standard(transpose, "Transpose") or shape is None:
        return None
    perm, before = attribute(transpose, "perm"), static_shape(transpose.inputs[0])
    axis = int(attribute(node, "axis", 0)) % len(shape)
    if perm is None or before is None or shape[axis] != len(node.outputs):
        return None
    if value is None or sum(usage.node.op_type == "Split" for usage in value.uses()) > 1:
        return None
    other = int(perm[axis])
    exchanged = [other if each == axis else axis if each == other else each for each in range(len(perm))]
    return other if other != axis and list(perm) == exchanged and before[axis] == 1 else None
