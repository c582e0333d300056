"""Element-wise operators in terms of those that the BPU has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_ORDERED, MARK_SWAPPED, static_shape
from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    axes_of,
    graph_of,
    initializer_of,
    is_standard,
    make_node,
    replace_constant,
    stand_for,
    substitute,
)
from engine.optimize.contract import GraphPass
from engine.terms import Compatibility


class LargerFactorFirst(NodePass):
    """The operand that is not broadcast comes first: ``gate * map`` becomes ``map * gate``, a sum likewise.

    A constant that has the shape of the result stays first, not where it has fewer dimensions. Two operands that are
    both broadcast change places once, whether constant or computed, where no other pass merges them (24 of 24 asked
    that way round, 26 of 26 the other way; RTMPose). 68 products and sums asked before, 58 of them on two marches; none
    of 5,533 in 548 recorded conversions is written the other way round.
    """

    op_types = frozenset({"Add", "Mul"})

    def rewrite(self, node: ir.Node) -> bool:
        if not self.remains(node):
            return False
        first, second = node.inputs
        node.replace_input_with(0, second)
        node.replace_input_with(1, first)
        if _is_broadcast(second, node):
            node.metadata_props[MARK_ORDERED] = "yes"
        return True

    def remains(self, node: ir.Node) -> bool:
        """A first operand that is broadcast, where the two have not changed places yet."""
        return MARK_ORDERED not in node.metadata_props and _is_broadcast(node.inputs[0], node)


def _is_broadcast(operand: ir.Value | None, node: ir.Node) -> bool:
    """Whether ``operand``, of a known shape, has not that of the result of ``node``: fewer dimensions count too."""
    shape, result = static_shape(operand), static_shape(node.outputs[0])
    return shape is not None and result is not None and shape != result


class ShareArithmetic(GraphPass):
    """Of several Add, Sub, Relu or ReduceMean of the same tensors only the first stays, also if Add has them swapped.

    So the means of two normalisations of the same tokens (DINOv2, Depth Anything), or a Relu written twice. A constant
    counts where it is one tensor of as many dimensions as the result. No other operator: 17 kinds asked on bayes-e and
    bernoulli2 stay, among them Mul, Max, functions, pools, Concat and Slice. The original takes ``a - b`` and ``b - a``
    for the same, too, and computes the first for both (``arithmetic.swapped-difference``); with ``compatibility:
    clean`` these stay apart. Where a second one is an output the first is that output, under its own name, and two
    outputs are refused (:func:`~engine.optimize.base.stand_for`); with ``compatibility: clean`` both stay.
    """

    op_types = frozenset({"Add", "ReduceMean", "Relu", "Sub"})

    def __init__(self, compatibility: Compatibility = Compatibility.ORIGINAL) -> None:
        self._renames = compatibility is Compatibility.ORIGINAL
        self._commutes = ("Add", "Sub") if compatibility is Compatibility.ORIGINAL else ("Add",)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        first: dict[tuple[object, ...], ir.Node] = {}
        modified = False
        for node in tuple(model.graph):
            key = self._computed(node) if is_standard(node, *self.op_types) else None
            other = node if key is None else first.setdefault(key, node)
            if other is not node and (self._renames or not node.outputs[0].is_graph_output()):
                if node.op_type == "Sub" and tuple(node.inputs) != tuple(other.inputs):
                    other.metadata_props[MARK_SWAPPED] = "yes"
                stand_for(other.outputs[0], node.outputs[0])
                model.graph.remove(node, safe=True)
                modified = True
        return ir.passes.PassResult(model, modified)

    def _computed(self, node: ir.Node) -> tuple[object, ...] | None:
        """What ``node`` computes; ``None`` where no other counts as the same."""
        shape = static_shape(node.outputs[0])
        if shape is None:
            return None
        if node.op_type == "ReduceMean":
            axes = axes_of(node, len(static_shape(node.inputs[0]) or ()))
            return None if axes is None else (node.op_type, node.inputs[0], tuple(axes), shape)
        operands = tuple(node.inputs)
        if any(initializer_of(value) is not None and len(static_shape(value) or ()) < len(shape) for value in operands):
            return None
        return (node.op_type, frozenset(operands) if node.op_type in self._commutes else operands)


class DivToReciprocal(NodePass):
    """``a / b`` becomes ``a * Reciprocal(b)``, nodes ``<node>_reciprocal`` and ``<node>_mul``.

    A constant is inverted here. A computed ``b`` without dimensions, as a mean of a whole map, stays a divisor.
    """

    op_types = frozenset({"Div"})

    def rewrite(self, node: ir.Node) -> bool:
        left, right = node.inputs[0], node.inputs[1]
        if left is None or right is None or right.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
            return False
        divisor = initializer_of(right)
        if divisor is not None:
            return _multiply_by_inverse(node, left, right, divisor)
        if not self.remains(node):
            return False
        reciprocal = make_node(
            "Reciprocal",
            [right],
            name=f"{node.name}_reciprocal",
            output=f"{node.name}{right.name}_reciprocal",
            like=right,
        )
        if _is_one(left) and static_shape(right) == static_shape(node.outputs[0]):
            substitute(node, [reciprocal])
            return True
        product = make_node(
            "Mul",
            [left, reciprocal.outputs[0]],
            name=f"{node.name}_mul",
            output=f"{node.name}_product",
            like=node.outputs[0],
        )
        substitute(node, [reciprocal, product])
        return True

    def remains(self, node: ir.Node) -> bool:
        """One by a computed float tensor that has dimensions."""
        left, right = node.inputs[0], node.inputs[1]
        if left is None or right is None or initializer_of(right) is not None:
            return False
        return right.dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16) and static_shape(right) != ()


class ExpandConstants(NodePass):
    """A constant of fewer dimensions than the result of its sum or product gets as many.

    It is called ``<node><constant>_expand_dims`` (47 of them in ``detr``, ``mobilevit``, ``swin``, ``vit_sep`` and
    ``vit_timm``, none otherwise). A number that divides gets one dimension (``yolo11``, ``yolov8_decode``), so does one
    that a Max compares with (21 of 21 asked on three marches).
    """

    op_types = frozenset({"Add", "Div", "Max", "Mul", "Sub"})

    def rewrite(self, node: ir.Node) -> bool:
        found = self._short(node)
        for index, value, array in found:
            expanded = array.reshape((1,) * (self._rank(node) - array.ndim) + array.shape)
            if node.op_type in _OF_ONE_DIMENSION:
                replace_constant(node, index, expanded)
                continue
            name = f"{node.name}{value.name}_expand_dims"
            node.replace_input_with(index, add_initializer(graph_of(node), name, expanded))
        return bool(found)

    def remains(self, node: ir.Node) -> bool:
        """One with a shorter constant."""
        return bool(self._short(node))

    def _short(self, node: ir.Node) -> list[tuple[int, ir.Value, Array]]:
        """Index, value and array of the constants that have too few dimensions."""
        arrays = [(index, value, initializer_of(value)) for index, value in enumerate(node.inputs) if value is not None]
        return [
            (index, value, array)
            for index, value, array in arrays
            if array is not None and array.dtype.kind == "f" and array.ndim < self._rank(node)
        ]

    @staticmethod
    def _rank(node: ir.Node) -> int:
        """How many dimensions constants of ``node`` have."""
        rank = len(static_shape(node.outputs[0]) or ())
        return min(1, rank) if node.op_type in _OF_ONE_DIMENSION else rank


_OF_ONE_DIMENSION = ("Div", "Max")
"""Operators whose constants get one dimension."""


class SumToAdd(NodePass):
    """``Sum`` of several tensors, which may broadcast, becomes ``Add`` after ``Add``: ``<node>_Add_1``, ``_Add_2``."""

    op_types = frozenset({"Sum"})

    def rewrite(self, node: ir.Node) -> bool:
        if not self.remains(node):
            return False
        operands = list(node.inputs)
        shapes = [static_shape(value) or () for value in operands]
        new_nodes: list[ir.Node] = []
        total = operands[0]
        for index, operand in enumerate(operands[1:]):
            name = f"{node.name}_Add_{index + 1}"
            shape = np.broadcast_shapes(*shapes[: index + 2])
            add = make_node(
                "Add", [total, operand], name=name, output=f"{name}_output", like=node.outputs[0], shape=shape
            )
            new_nodes.append(add)
            total = add.outputs[0]
        substitute(node, new_nodes)
        return True

    def remains(self, node: ir.Node) -> bool:
        """One of several tensors of known shapes."""
        return len(node.inputs) > 1 and all(static_shape(value) is not None for value in node.inputs)


class WhereToProducts(NodePass):
    """``Where(c, a, b)`` of float tensors becomes ``c * a + (1 - c) * b``, as in the original
    (reference/operators.md).

    The parts are named ``<node>_mul``, ``<node>_add`` and so on. Not where an operand is infinite or undefined, or may
    be because it is computed with such a constant (rows of an attention that are masked as a whole): its product with
    zero would be undefined.
    """

    op_types = frozenset({"Where"})

    def rewrite(self, node: ir.Node) -> bool:
        condition, chosen, other = node.inputs[0], node.inputs[1], node.inputs[2]
        shape = static_shape(node.outputs[0])
        if condition is None or chosen is None or other is None or shape is None:
            return False
        if chosen.dtype != ir.DataType.FLOAT or _may_be_undefined((chosen, other)):
            return False
        decided = initializer_of(condition)
        if decided is None:
            masks, new_nodes = _computed_masks(node, condition)
        else:
            graph = graph_of(node)
            masks = (
                add_initializer(graph, f"{node.name}_mask", decided.astype(np.float32)),
                add_initializer(graph, f"{node.name}_not_mask", (~decided).astype(np.float32)),
            )
            new_nodes = []
        products = [
            _arithmetic("Mul", node, name, (value, mask))
            for name, value, mask in (("mul", chosen, masks[0]), ("not_mul", other, masks[1]))
        ]
        total = _arithmetic("Add", node, "add", (products[0].outputs[0], products[1].outputs[0]))
        substitute(node, [*new_nodes[:1], products[0], *new_nodes[1:], products[1], total])
        return True


def _may_be_undefined(values: Sequence[ir.Value]) -> bool:
    """Whether one of ``values`` is, or is computed with, a constant that is not finite."""
    pending, seen = list(values), set(values)
    while pending:
        value = pending.pop()
        array, producer = initializer_of(value), value.producer()
        if array is not None and array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            return True
        new = [] if producer is None else [item for item in producer.inputs if item is not None and item not in seen]
        pending += new
        seen.update(new)
    return False


def _computed_masks(node: ir.Node, condition: ir.Value) -> tuple[tuple[ir.Value, ir.Value], list[ir.Node]]:
    """The mask of a computed ``condition`` and its opposite as floats, and the three nodes that compute them."""
    numbers = {"to": int(ir.DataType.FLOAT)}
    shape = static_shape(condition)
    like = node.outputs[0]
    false = add_initializer(graph_of(node), f"{node.name}_false", np.asarray(False))
    cast = make_node(
        "Cast",
        [condition],
        name=f"{node.name}_cast",
        output=f"{node.name}_mask",
        like=like,
        shape=shape,
        attributes=numbers,
    )
    equal = make_node(
        "Equal", [condition, false], name=f"{node.name}_equal", output=f"{node.name}_opposite", like=condition
    )
    opposite = make_node(
        "Cast",
        [equal.outputs[0]],
        name=f"{node.name}_not_cast",
        output=f"{node.name}_not_mask",
        like=like,
        shape=shape,
        attributes=numbers,
    )
    return (cast.outputs[0], opposite.outputs[0]), [cast, equal, opposite]


def _arithmetic(op_type: str, node: ir.Node, suffix: str, operands: tuple[ir.Value, ir.Value]) -> ir.Node:
    """A part ``<node>_<suffix>`` of what replaces ``node``, on two operands that broadcast."""
    shapes = [static_shape(value) for value in operands]
    shape = None if None in shapes else np.broadcast_shapes(*(shape for shape in shapes if shape is not None))
    name = f"{node.name}_{suffix}"
    return make_node(op_type, operands, name=name, output=f"{name}_result", like=node.outputs[0], shape=shape)


def _multiply_by_inverse(node: ir.Node, left: ir.Value, right: ir.Value, divisor: Array) -> bool:
    """Replace the division by a constant; not where a constant is zero or its inverse overflows."""
    with np.errstate(all="ignore"):
        inverse = (1.0 / divisor.astype(np.float64)).astype(divisor.dtype)
    if not np.all(np.isfinite(inverse)):
        return False
    factor = add_initializer(graph_of(node), f"{node.name}{right.name}_reciprocal", inverse)
    product = make_node(
        "Mul", [left, factor], name=f"{node.name}_mul", output=f"{node.name}_product", like=node.outputs[0]
    )
    substitute(node, [product])
    return True


def _is_one(value: ir.Value) -> bool:
    array = initializer_of(value)
    return array is not None and array.size == 1 and float(array.reshape(())) == 1.0
