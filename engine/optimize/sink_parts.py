"""Reshapes and transposes move behind what joins or cuts the tensors that they rearrange, and behind a Softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, static_shape
from engine.optimize.base import (
    NodePass,
    graph_of,
    is_standard,
    make_node,
    substitute,
    substitute_outputs,
)
from engine.optimize.reshaping import Correspondence, drops_or_appends_ones, joins_alike
from engine.optimize.sink import Sink, movement_to, put_in_place, reshape_behind, reshaped, transpose_behind


class SinkTransposeBehindConcat(Sink):
    """Equal Transposes of all operands go behind a ``Concat``, whatever axis it joins.

    Scores and boxes of several maps, channels last (DAMO-YOLO, RT-DETR): 30 of 30 Concats asked on bayes-e and
    bernoulli2, of two and three operands and of one twice; where an operand is constant or comes from something else
    they stay (4 of 4). Named as by :class:`SinkTranspose`.
    """

    moves = "Transpose"

    def passes(self, node: ir.Node) -> bool:
        return is_standard(node, "Concat")

    def sink(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        shape = static_shape(node.outputs[0]) or ()
        perms = {tuple(attribute(movement, "perm", ())) for movement in movements}
        perm = perms.pop()
        if perms or len(movements) != len(node.inputs) or len(perm) != len(shape):
            return False
        before = tuple(shape[axis] for axis in np.argsort(perm))
        moved = _joined(node, movements, "transpose", before, perm[int(attribute(node, "axis")) % len(shape)])
        put_in_place(node, [moved, transpose_behind(node, moved, perm)], movements)
        return True


class SinkReshapeBehindConcat(Sink):
    """Reshapes of all operands go behind a ``Concat`` that joins what they reshape along the axis of the same number.

    They do where all places that both shapes have stay but that axis (:func:`joins_alike`): lines of equally wide
    maps, mean and maximum of tokens, values that become columns of a stack, classes behind a pool, boxes of four
    numbers of maps that are four wide. Named as by :class:`SinkReshape`. 141 of 141 Concats behind 38 Reshapes asked on
    bayes-e, 90 of 90 behind 90 others, and 9 on three marches in two networks of questions; the published log of
    YOLOv13n (twice). Not the boxes of YOLOv8n nor other rows of maps with their channels last, nor what others read as
    well, such as the states of a GRU (two networks).
    """

    moves = "Reshape"

    def passes(self, node: ir.Node) -> bool:
        return is_standard(node, "Concat")

    def sink(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        pairs = [(static_shape(m.inputs[0]) or (), static_shape(m.outputs[0]) or ()) for m in movements]
        if len(movements) != len(node.inputs):
            return False
        axis = int(attribute(node, "axis")) % len(static_shape(node.outputs[0]) or ())
        if not all(joins_alike(before, after, axis) for before, after in pairs):
            return False
        if len({(*before[:axis], *before[axis + 1 :]) for before, _ in pairs}) > 1:
            return False
        if any(value is None or len(value.uses()) > 1 for value in (movement.inputs[0] for movement in movements)):
            return False
        before = pairs[0][0]
        joined = sum(shape[axis] for shape, _ in pairs)
        moved = _joined(node, movements, "reshape", (*before[:axis], joined, *before[axis + 1 :]), axis)
        put_in_place(node, [moved, reshape_behind(node, moved)], movements)
        return True


def _joined(node: ir.Node, movements: Sequence[ir.Node], suffix: str, shape: Sequence[int], axis: int) -> ir.Node:
    """The ``Concat`` ``node`` of what ``movements`` read, of ``shape``, along ``axis`` of that."""
    return make_node(
        "Concat",
        [movement.inputs[0] for movement in movements],
        name=str(node.name),
        output=f"{node.outputs[0].name}_{suffix}",
        like=node.outputs[0],
        shape=tuple(shape),
        attributes={"axis": axis},
    )


class SinkReshapeBehindSplit(NodePass):
    """A ``Reshape`` that drops or appends axes of length 1 goes behind a ``Split``, as behind a ``Slice``.

    The distances of YOLOv8n, by the names of its published ``quant_info`` (provisional, 1 network). The moved nodes are
    numbered as the parts, and the last comes first (2 of 2 asked, 1 drawn).
    """

    op_types = frozenset({"Split"})

    def rewrite(self, node: ir.Node) -> bool:
        place, value = self._place(node), node.inputs[0]
        reshape = None if value is None else value.producer()
        source = None if reshape is None else reshape.inputs[0]
        if place is None or value is None or reshape is None or source is None:
            return False
        axis, before = int(attribute(node, "axis", 0)), static_shape(source) or ()
        parts = []
        for result in node.outputs:
            size = (static_shape(result) or ())[axis]
            shape = ir.Shape((*before[:place], size, *before[place + 1 :]))
            parts.append(ir.Value(name=f"{result.name}_reshape", type=result.type, shape=shape))
        attributes = [*(attr for name, attr in node.attributes.items() if name != "axis"), ir.AttrInt64("axis", place)]
        moved = ir.Node("", "Split", [source, *node.inputs[1:]], attributes, outputs=parts, name=node.name)
        pairs = zip(parts, node.outputs, strict=True)
        reshapes = [reshaped(node, part, result, index) for index, (part, result) in enumerate(pairs)]
        results = {result: made.outputs[0] for result, made in zip(node.outputs, reshapes, strict=True)}
        substitute_outputs(node, [moved, *reversed(reshapes)], results)
        if not value.uses() and not value.is_graph_output():
            graph_of(moved).remove(reshape, safe=True)
        return True

    def remains(self, node: ir.Node) -> bool:
        """A Split that such a Reshape stands before."""
        return self._place(node) is not None

    def _place(self, node: ir.Node) -> int | None:
        """The axis of ``node`` in the shape before the Reshape; ``None`` where that does not pass."""
        value = node.inputs[0]
        reshape = None if value is None else movement_to(value, "Reshape")
        before = None if reshape is None else static_shape(reshape.inputs[0])
        after = static_shape(value)
        if not before or not after or any(static_shape(result) is None for result in node.outputs):
            return None
        kept = Correspondence.between(before, after)
        if kept is None or not drops_or_appends_ones(before, after):
            return None
        inner = kept.axes([int(attribute(node, "axis", 0)) % len(after)])
        return inner[0] if inner else None


class SinkReshapeBehindSoftmax(NodePass):
    """A ``Reshape`` that only drops last axes of length 1 goes behind the ``Softmax`` over the channels of its result.

    Both nodes keep their names, and each tensor the name of that in its place: the classes at the end of a network,
    behind a ``Flatten``, ``Squeeze``, ``Reshape`` or ``Gemm``. Not where anything else reads the reshaped tensor, not
    over another axis, and not for ``LogSoftmax`` (reference/operators.md, ``Reshape`` in front of ``Softmax``).
    """

    op_types = frozenset({"Softmax"})

    def rewrite(self, node: ir.Node) -> bool:
        reshape, value, result = self._reshape(node), node.inputs[0], node.outputs[0]
        if reshape is None or value is None:
            return False
        source, attributes = reshape.inputs[0], {"axis": _CHANNELS}
        made = make_node("Softmax", [source], name=str(node.name), output="", like=source, attributes=attributes)
        behind = make_node(
            "Reshape", [made.outputs[0], reshape.inputs[1]], name=str(reshape.name), output="", like=result
        )
        substitute(node, [made, behind])
        graph_of(made).remove(reshape, safe=True)
        made.outputs[0].name = value.name
        return True

    def remains(self, node: ir.Node) -> bool:
        """A Softmax that such a Reshape stands before."""
        return self._reshape(node) is not None

    def _reshape(self, node: ir.Node) -> ir.Node | None:
        value = node.inputs[0]
        reshape = None if value is None else movement_to(value, "Reshape")
        if value is None or reshape is None or value.is_graph_output() or len(value.uses()) != 1:
            return None
        before, after = static_shape(reshape.inputs[0]) or (), static_shape(value) or ()
        kept = len(after)
        if not _CHANNELS < kept < len(before) or before[:kept] != after or set(before[kept:]) != {1}:
            return None
        default = -1 if graph_of(node).opset_imports.get("", 0) >= _SOFTMAX_OVER_LAST else 1
        return reshape if attribute(node, "axis", default) % kept == _CHANNELS else None


_CHANNELS = 1
"""Axis of the channels."""
_SOFTMAX_OVER_LAST = 13
"""Opset since which ``Softmax`` is over the last axis where it says none."""
