"""``Einsum`` of one or two operands as products of matrices between transpositions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from engine.ir import attribute, shape_of, static_shape
from engine.optimize.base import initializer_of
from engine.rewrite.base import Chain, Rewrite, has_shapes, is_float

_STACK = 2
"""Axes of a stack of matrices of rank 4."""


@dataclass(frozen=True)
class Equation:
    """The letters of an equation.

    Attributes:
        left, right: of the operands.
        result: of the output.
        stack: in all three.
        summed: in both operands only.
        rows: of the left operand only, and in the result; ``columns``: of the right one.
    """

    left: str
    right: str
    result: str

    @property
    def stack(self) -> str:
        return "".join(letter for letter in self.left if letter in self.right and letter in self.result)

    @property
    def summed(self) -> str:
        return "".join(letter for letter in self.left if letter in self.right and letter not in self.result)

    @property
    def rows(self) -> str:
        return "".join(letter for letter in self.left if letter not in self.right)

    @property
    def columns(self) -> str:
        return "".join(letter for letter in self.right if letter not in self.left)


class EinsumAsMatMul(Rewrite):
    """``Einsum`` as ``Transpose``, ``Reshape``, ``MatMul``, or a 1x1 ``Conv`` where it mixes channels."""

    name = "einsum"
    says = "An Einsum becomes a product of matrices, or a 1x1 convolution where it mixes channels by constant weights."
    op_types = frozenset({"Einsum"})

    def replaced(self, node: ir.Node, chain: Chain) -> bool:
        if not has_shapes(node) or not is_float(node) or any(static_shape(value) is None for value in node.inputs):
            return False
        equation = str(attribute(node, "equation", "")).replace(" ", "")
        operands, _, result = equation.partition("->")
        terms = operands.split(",")
        if not result or "." in equation or any(len(set(term)) != len(term) for term in (*terms, result)):
            return self._refused(node, equation)
        values = [value for value in node.inputs if value is not None]
        if len(terms) == len(values) == 1:
            if sorted(terms[0]) != sorted(result):
                return self._refused(node, equation)
            chain.transpose(values[0], [terms[0].index(letter) for letter in result])
            return bool(chain.nodes)
        if not len(terms) == len(values) == 2:
            return self._refused(node, equation)
        labels = Equation(terms[0], terms[1], result)
        if not set(labels.rows + labels.columns) <= set(result):
            return self._refused(node, equation)
        return _convolved(chain, labels, values[0], values[1]) or _multiplied(chain, labels, values[0], values[1])

    def _refused(self, node: ir.Node, equation: str) -> bool:
        self.remarks.append(
            f"{node.name} (Einsum): {equation}: only two operands that share no letter alone, and transpositions, are "
            "rewritten; it stays on the CPU"
        )
        return False


def _convolved(chain: Chain, labels: Equation, x: ir.Value, weights: ir.Value) -> bool:
    """As a convolution where the second axis of rank 4 is mixed by a constant matrix."""
    array = initializer_of(weights)
    if array is None or len(labels.left) != 4 or len(labels.right) != 2 or labels.summed != labels.left[1]:
        return False
    if labels.result != labels.left[0] + labels.columns + labels.left[2:]:
        return False
    matrix = array if labels.right[1] == labels.summed else array.T
    shape = shape_of(x)
    kernel = chain.constant("weights", matrix.reshape(*matrix.shape, 1, 1))
    chain.add("Conv", [x, kernel], (shape[0], matrix.shape[0], *shape[2:]), kernel_shape=[1, 1])
    return True


def _multiplied(chain: Chain, labels: Equation, left: ir.Value, right: ir.Value) -> bool:
    """As a product of stacks of matrices."""
    sizes = dict(zip(labels.left, shape_of(left), strict=True)) | dict(zip(labels.right, shape_of(right), strict=True))

    def length(letters: str) -> int:
        return prod(sizes[letter] for letter in letters)

    def arranged(value: ir.Value, own: str, order: str, shape: tuple[int, ...]) -> ir.Value:
        return chain.reshape(chain.transpose(value, [own.index(letter) for letter in order]), shape)

    stack = tuple(sizes[letter] for letter in labels.stack)
    if len(stack) > _STACK or not stack:
        stack = (1, length(labels.stack))
    stack = (1,) * (_STACK - len(stack)) + stack
    rows, summed, columns = length(labels.rows), length(labels.summed), length(labels.columns)
    a = arranged(left, labels.left, labels.stack + labels.rows + labels.summed, (*stack, rows, summed))
    b = arranged(right, labels.right, labels.stack + labels.summed + labels.columns, (*stack, summed, columns))
    product = chain.add("MatMul", [a, b], (*stack, rows, columns))
    order = labels.stack + labels.rows + labels.columns
    split = chain.reshape(product, tuple(sizes[letter] for letter in order))
    chain.transpose(split, [order.index(letter) for letter in labels.result])
    return True
