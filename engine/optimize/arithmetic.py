"""Element-wise operators in terms of those that the BPU has."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.optimize.base import (
    Array,
    NodePass,
    add_initializer,
    constant,
    graph_of,
    make_node,
    static_shape,
    substitute,
)


class DivToReciprocal(NodePass):
    """``a / b`` becomes ``a * Reciprocal(b)``, nodes ``<node>_reciprocal`` and ``<node>_mul``.

    A constant is inverted here.
    """

    op_types = frozenset({"Div"})

    def rewrite(self, node: ir.Node) -> bool:
        left, right = node.inputs[0], node.inputs[1]
        if left is None or right is None or right.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
            return False
        divisor = constant(right)
        if divisor is not None:
            return _multiply_by_inverse(node, left, right, divisor)
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


class SumToAdd(NodePass):
    """``Sum`` of several tensors becomes a chain of ``Add``; the last keeps the node's name."""

    op_types = frozenset({"Sum"})

    def rewrite(self, node: ir.Node) -> bool:
        operands = list(node.inputs)
        shape = static_shape(node.outputs[0])
        if len(operands) < 2 or any(static_shape(value) != shape for value in operands):
            return False
        new_nodes: list[ir.Node] = []
        total = operands[0]
        for index, operand in enumerate(operands[1:]):
            last = index == len(operands) - 2
            name = str(node.name) if last else f"{node.name}_add_{index}"
            add = make_node("Add", [total, operand], name=name, output=f"{name}_sum", like=node.outputs[0])
            new_nodes.append(add)
            total = add.outputs[0]
        substitute(node, new_nodes)
        return True


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
    array = constant(value)
    return array is not None and array.size == 1 and float(array.reshape(())) == 1.0
