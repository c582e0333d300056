"""Activations that exporters write as several nodes collapse to one operator of domain ``horizon`` each.

The names are those of the original's files: the new node is called as the pattern's last ``Mul``, its output as the
pattern's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from engine.graph import sole_reader
from engine.ir import attribute
from engine.optimize.base import RELATIVE_TOLERANCE, NodePass, collapse, initializer_of, is_standard
from engine.optimize.contract import Condition, GraphPass


class CollapseActivations(GraphPass):
    """Swish, HardSwish, Mish and Gelu (erf form) become one node; tanh-Gelu stays decomposed.

    Source: reference/operators.md.
    """

    gives = (Condition("no Swish is left in two nodes", lambda node: _is_swish(node)),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        present = {node.op_type for node in model.graph if is_standard(node, node.op_type)}
        # Matching is slow: what the model has no operators for is not tried.
        wanted = frozenset(name for name, operator in _NEEDED.items() if operator in present)
        if not wanted or "Mul" not in present:
            return ir.passes.PassResult(model, modified=False)
        from engine.optimize.activation_patterns import rules  # onnxscript: 0.1 s that other models do not need

        return ir.passes.PassResult(model, rules(wanted).apply_to_model(model) > 0)


_NEEDED: Mapping[str, str] = MappingProxyType(
    {"HzSwish": "Sigmoid", "HzMish": "Softplus", "HzHardSwish": "Clip", "HzGelu": "Erf"}
)
"""An operator that every pattern of a result has, besides ``Mul``."""


def _is_swish(node: ir.Node) -> bool:
    """Whether ``node`` is the product of a tensor with its sigmoid, which nothing else reads."""
    if not is_standard(node, "Mul"):
        return False
    gates = [_only_read_by(value, node, "Sigmoid") for value in node.inputs]
    return any(gate is not None and gate.inputs[0] in node.inputs for gate in gates)


class StandardActivations(NodePass):
    """ONNX's own ``HardSwish`` and ``Mish`` become the operators that the patterns collapse to."""

    op_types = frozenset({"HardSwish", "Mish"})

    def rewrite(self, node: ir.Node) -> bool:
        collapse(node, f"Hz{node.op_type}", node.inputs[0])
        return True

    def remains(self, node: ir.Node) -> bool:
        """Any."""
        return True


class CollapseRsqrt(NodePass):
    """``Reciprocal(Sqrt(x + epsilon))`` and ``Reciprocal(Sqrt(x) + epsilon)`` become ``HzRsqrt``.

    It is named as the ``Reciprocal``; attribute ``epsilon`` is what is added, ``is_sqrt_add_reciprocal`` 1 where that
    is behind the root. A root of a sum with anything but one number stays one, if nothing is added behind it.
    """

    op_types = frozenset({"Reciprocal"})

    def rewrite(self, node: ir.Node) -> bool:
        found = self._root(node)
        if found is None:
            return False
        source, epsilon, behind = found
        collapse(node, "HzRsqrt", source, epsilon=epsilon, is_sqrt_add_reciprocal=int(behind))
        return True

    def remains(self, node: ir.Node) -> bool:
        """Whether ``node`` is the reciprocal of such a root, which nothing else reads."""
        return self._root(node) is not None

    @staticmethod
    def _root(node: ir.Node) -> tuple[ir.Value | None, float, bool] | None:
        """What the root is taken of, the number that is added, and whether that is behind the root."""
        total = _only_read_by(node.inputs[0], node, "Add")
        behind = None if total is None else _sum_with_number(total)
        if total is not None and behind is not None:
            root = _only_read_by(behind[0], total, "Sqrt")
            return None if root is None else (root.inputs[0], behind[1], True)
        root = _only_read_by(node.inputs[0], node, "Sqrt")
        if root is None or root.inputs[0] is None:
            return None
        maker = root.inputs[0].producer()
        if maker is None or not is_standard(maker, "Add"):
            return root.inputs[0], 0.0, False
        before = _sum_with_number(maker)
        return None if before is None or _only_read_by(root.inputs[0], root, "Add") is None else (*before, False)


def _sum_with_number(node: ir.Node) -> tuple[ir.Value, float] | None:
    """What one number is added to, and the number; None for any other sum."""
    for x, other in (node.inputs, reversed(node.inputs)):
        array = initializer_of(other)
        if x is not None and array is not None and array.size == 1 and x.shape == node.outputs[0].shape:
            return x, float(array.reshape(()))
    return None


class HardSigmoidToHardSwish(NodePass):
    """``x * HardSigmoid(x)`` with slope 1/6 and offset 1/2 becomes ``HzHardSwish``."""

    op_types = frozenset({"Mul"})

    def rewrite(self, node: ir.Node) -> bool:
        x = self._input(node)
        if x is None:
            return False
        collapse(node, "HzHardSwish", x)
        return True

    def remains(self, node: ir.Node) -> bool:
        """Such a product."""
        return self._input(node) is not None

    @staticmethod
    def _input(node: ir.Node) -> ir.Value | None:
        """``x`` of the product; None where ``node`` is another one."""
        for x, other in (node.inputs, reversed(node.inputs)):
            inner = _only_read_by(other, node, "HardSigmoid")
            if x is None or inner is None or inner.inputs[0] is not x:
                continue
            slope, offset = attribute(inner, "alpha", 0.2), attribute(inner, "beta", 0.5)
            if np.isclose(slope, 1 / 6, rtol=RELATIVE_TOLERANCE) and offset == 0.5:
                return x
        return None


class CollapseSoftmax(NodePass):
    """``Softmax`` of the last axis between two ``Transpose`` that swap it with another becomes ``HzSoftmax`` of that.

    As PyTorch writes a softmax of a map over another axis before operator set 13: asked of axes 0, 1 and 2, on three
    marches. Between other permutations (of 2 asked; operators.csv: Softmax T-softmax(3)-T; the boxes of
    ``yolov8_decode`` and ``yolo11``) and in three or five dimensions (1 asked of each) it stays. A ``Transpose`` in
    front of the first is one with it before (boxes of a drawn head on two marches).
    """

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        found = self._softmax(node)
        if found is None:
            return False
        first, softmax, axis = found
        collapse(node, "HzSoftmax", first.inputs[0], name=str(softmax.name), axis=axis)
        return True

    def remains(self, node: ir.Node) -> bool:
        """The last of the three."""
        return self._softmax(node) is not None

    @staticmethod
    def _softmax(node: ir.Node) -> tuple[ir.Node, ir.Node, int] | None:
        """The first ``Transpose``, the ``Softmax`` in front of the last and the axis; None where it is another."""
        softmax = _only_read_by(node.inputs[0], node, "Softmax")
        first = None if softmax is None else _only_read_by(softmax.inputs[0], softmax, "Transpose")
        if softmax is None or first is None or attribute(softmax, "axis", 1) not in (-1, 3):
            return None
        if _only_read_by(first.inputs[0], first, "Transpose") is not None:
            return None
        perms = {tuple(attribute(transpose, "perm", ())) for transpose in (first, node)}
        axis = _SWAPPED_WITH_LAST.get(perms.pop())
        return None if perms or axis is None else (first, softmax, axis)


_SWAPPED_WITH_LAST = {(3, 1, 2, 0): 0, (0, 3, 2, 1): 1, (0, 1, 3, 2): 2}
"""Axes of a map by the permutation that swaps one with the last; each is its own inverse."""


def _only_read_by(value: ir.Value | None, reader: ir.Node, op_type: str) -> ir.Node | None:
    """The node of ``op_type`` that computes ``value``, where only ``reader`` reads it."""
    producer = None if value is None else value.producer()
    if value is None or not is_standard(producer, op_type) or sole_reader(value, once=True) is not reader:
        return None
    return producer
