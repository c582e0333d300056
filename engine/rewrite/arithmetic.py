"""Operators of one line that a march lacks, in terms of those that it has."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of, static_shape
from engine.optimize.base import axes_of, initializer_of
from engine.rewrite.base import Chain, Rewrite, float_source, has_shapes, is_float, opset_of_node

_SUM_AXES_AS_INPUT = 13
_AXES_AS_INPUT = 18
"""First opsets whose ReduceSum, and whose other reductions, take their axes as an input."""


def _minus(chain: Chain, value: ir.Value) -> ir.Value:
    return chain.add("Mul", [value, chain.constant("minus", np.float32(-1.0))], shape_of(value))


class NegationAsProduct(Rewrite):
    """``-x`` as ``-1 * x``; ``a - b`` as ``a + -1 * b``."""

    name = "minus"
    says = "Neg becomes a product with -1, and Sub a sum with such a product."
    op_types = frozenset({"Neg", "Sub"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        if not has_shapes(node) or not is_float(node) or any(static_shape(value) is None for value in node.inputs):
            return False
        first = node.inputs[0]
        second = node.inputs[1] if len(node.inputs) > 1 else None
        if node.op_type == "Neg" and first is not None:
            _minus(chain, first)
            return True
        if first is None or second is None:
            return False
        array = initializer_of(second)
        other = _minus(chain, second) if array is None else chain.constant("minus", -array)
        chain.add("Add", [first, other], shape_of(node.outputs[0]))
        return True


class MinAsMax(Rewrite):
    """``min(a, b)`` as ``-max(-a, -b)``, and ``ReduceMin`` as ``-ReduceMax(-x)``."""

    name = "min"
    says = "Min and ReduceMin become Max and ReduceMax of what is multiplied by -1."
    op_types = frozenset({"Min", "ReduceMin"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        if not has_shapes(node) or not is_float(node):
            return False
        if node.op_type == "Min" and any(static_shape(value) is None for value in node.inputs):
            return False
        count = len(node.inputs) if node.op_type == "Min" else 1
        given = [value for value in node.inputs[:count] if value is not None]
        negated = [_negated(chain, value) for value in given]
        kept = {name: each.value for name, each in node.attributes.items()}
        opposite = "Max" if node.op_type == "Min" else "ReduceMax"
        largest = chain.add(
            opposite, [*negated, *node.inputs[count:]], shape_of(node.outputs[0]), like=given[0], **kept
        )
        _minus(chain, largest)
        return True


def _negated(chain: Chain, value: ir.Value) -> ir.Value:
    array = initializer_of(value)
    return _minus(chain, value) if array is None else chain.constant("negated", -array)


class SquaresAsProducts(Rewrite):
    """``ReduceSumSquare`` as ``ReduceSum(x * x)``; ``LpNormalization`` as ``x / ReduceL2(x)``."""

    name = "norms"
    says = "ReduceSumSquare becomes a product and a sum, LpNormalization a quotient by ReduceL1 or ReduceL2."
    op_types = frozenset({"ReduceSumSquare", "LpNormalization"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None:
            return False
        rank = len(shape_of(source))
        if node.op_type == "ReduceSumSquare":
            axes = axes_of(node, rank)
            if axes is None:
                return False
            squares = chain.add("Mul", [source, source])
            keeps = bool(attribute(node, "keepdims", 1))
            reduced(chain, "ReduceSum", squares, axes or tuple(range(rank)), shape_of(node.outputs[0]), keeps)
            return True
        axis = attribute(node, "axis", -1) % rank
        kind = "ReduceL1" if attribute(node, "p", 2) == 1 else "ReduceL2"
        shape = shape_of(source)
        norm = reduced(chain, kind, source, (axis,), (*shape[:axis], 1, *shape[axis + 1 :]))
        chain.add("Div", [source, norm], shape)
        return True


class ReductionsInSteps(Rewrite):
    """A reduction over several axes as one over each, with its axis kept, and a Reshape where axes were dropped."""

    name = "reductions"
    says = "A reduction over several axes, or one that drops its axis, is done one axis at a time and keeps them."
    op_types = frozenset({"ReduceMean", "ReduceSum", "ReduceMax"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        source = float_source(node)
        if source is None:
            return False
        shape = shape_of(source)
        axes, keeps = axes_of(node, len(shape)), bool(attribute(node, "keepdims", 1))
        if axes is None or (not axes and attribute(node, "noop_with_empty_axes", 0)):
            return False
        axes = axes or tuple(range(len(shape)))
        if len(axes) == 1 and keeps:
            return False
        value, sides = source, list(shape)
        for axis in reversed(axes):  # the last axis first: it is the one that all marches reduce
            sides[axis] = 1
            value = reduced(chain, node.op_type, value, (axis,), tuple(sides))
        chain.reshape(value, shape_of(node.outputs[0]))
        return True


def reduced(
    chain: Chain, op_type: str, value: ir.Value, axes: tuple[int, ...], shape: tuple[int, ...], keeps: bool = True
) -> ir.Value:
    """A reduction of ``value`` over ``axes``, to ``shape``."""
    first = _SUM_AXES_AS_INPUT if op_type == "ReduceSum" else _AXES_AS_INPUT
    if opset_of_node(chain.node) < first:
        return chain.add(op_type, [value], shape, axes=list(axes), keepdims=int(keeps))
    named = chain.constant("axes", np.asarray(axes, np.int64))
    return chain.add(op_type, [value, named], shape, keepdims=int(keeps))
