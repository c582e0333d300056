"""Activations that exporters write as several nodes collapse to one operator of domain ``horizon`` each.

The names are those of the original's files: the new node is called as the pattern's last ``Mul``, its output as the
pattern's output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import pattern

from engine.ir import HORIZON_DOMAIN, HORIZON_VERSION, attribute
from engine.optimize.base import (
    NodePass,
    clip_bounds,
    collapse,
    constant,
    is_standard,
    sole_consumer,
)
from engine.optimize.contract import Condition, GraphPass

_RELATIVE_TOLERANCE = 1e-4
"""Of a constant in a pattern: exporters write 1/sqrt(2) and 1/6 with few digits."""

_Pattern = Callable[..., Any]


class CollapseActivations(GraphPass):
    """Swish, HardSwish, Mish and Gelu (erf form) become one node; tanh-Gelu stays decomposed.

    Source: reference/operators.md.
    """

    gives = (Condition("no Swish is left in two nodes", lambda node: _is_swish(node)),)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        present = {node.op_type for node in model.graph if is_standard(node, node.op_type)}
        # Matching is slow: what the model has no operators for is not tried.
        wanted = frozenset(_NEEDED.values()) & present if "Mul" in present else frozenset()
        if not wanted:
            return ir.passes.PassResult(model, modified=False)
        return ir.passes.PassResult(model, _rules(wanted).apply_to_model(model) > 0)


@cache
def _rules(present: frozenset[str]) -> pattern.RewriteRuleSet:
    """The patterns that such operators may be part of, operands in any order."""
    rules = [_rule(name, target, constants) for name, target, constants in _PATTERNS if _NEEDED[name] in present]
    return pattern.RewriteRuleSet(rules, commute=True)


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


def _rule(op_type: str, target: _Pattern, constants: Mapping[str, float]) -> pattern.RewriteRule:
    """Replace ``target`` by ``op_type`` where the values called as in ``constants`` are these constants.

    In ``target``, ``mul`` is the value whose node gives the name and ``clip`` a ``Clip`` from 0 to 6.
    """

    def replacement(op: Any, x: ir.Value, mul: ir.Value, **_: ir.Value) -> ir.Value:
        collapsed: ir.Value = getattr(op, op_type)(x, _domain=HORIZON_DOMAIN, _version=HORIZON_VERSION)
        producer, named = collapsed.producer(), mul.producer()
        if producer is not None and named is not None:
            producer.name = named.name
        return collapsed

    def holds(_: Any, **bound: ir.Value) -> bool:
        return all(_is_scalar(bound[name], value) for name, value in constants.items()) and (
            "clip" not in bound or _is_relu6(bound["clip"].producer())
        )

    return pattern.RewriteRule(target, replacement, holds, _Matcher)


class _Matcher(pattern.SimplePatternMatcher):
    """Tries a pattern only on nodes that one may end with, which is most of the work: 72 are forms of Gelu."""

    def match(
        self,
        model: ir.Model,
        graph_or_function: ir.Graph | ir.Function,
        node: ir.Node,
        *,
        verbose: int = 0,
        remove_nodes: bool = True,
        tracer: pattern.MatchingTracer | None = None,
    ) -> pattern.MatchResult:
        """See the base class."""
        if node.op_type not in _LAST:
            return pattern.MatchResult().fail("no pattern ends with such a node")
        return super().match(model, graph_or_function, node, verbose=verbose, remove_nodes=remove_nodes, tracer=tracer)


def _is_scalar(value: ir.Value, expected: float) -> bool:
    array = constant(value)
    if array is None or array.size != 1:
        return False
    return math.isclose(float(array.reshape(())), expected, rel_tol=_RELATIVE_TOLERANCE)


def _is_relu6(node: ir.Node | None) -> bool:
    return node is not None and clip_bounds(node) == (0.0, 6.0)


def _swish(op: Any, x: Any) -> Any:
    return op.Mul(x, op.Sigmoid(x), _outputs=["mul"])


def _mish(op: Any, x: Any) -> Any:
    return op.Mul(x, op.Tanh(op.Softplus(x)), _outputs=["mul"])


def _relu6_of_sum(op: Any, x: Any, three: Any) -> Any:
    return op.Clip(op.Add(x, three), _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["clip"])


def _hard_swish_divided(op: Any, x: Any, three: Any, six: Any) -> Any:
    return op.Div(op.Mul(x, _relu6_of_sum(op, x, three), _outputs=["mul"]), six)


def _hard_swish_scaled(op: Any, x: Any, three: Any, sixth: Any) -> Any:
    return op.Mul(op.Mul(x, _relu6_of_sum(op, x, three), _outputs=["mul"]), sixth)


def _hard_swish_of_quotient(op: Any, x: Any, three: Any, six: Any) -> Any:
    return op.Mul(x, op.Div(_relu6_of_sum(op, x, three), six), _outputs=["mul"])


def _hard_swish_of_product(op: Any, x: Any, three: Any, sixth: Any) -> Any:
    return op.Mul(x, op.Mul(_relu6_of_sum(op, x, three), sixth), _outputs=["mul"])


def _one_plus_erf_of_quotient(op: Any, x: Any, root: Any, one: Any) -> Any:
    return op.Add(op.Erf(op.Div(x, root)), one)


def _one_plus_erf_of_product(op: Any, x: Any, root: Any, one: Any) -> Any:
    return op.Add(op.Erf(op.Mul(x, root)), one)


def _gelu_of_halved_input(inner: _Pattern) -> _Pattern:
    return lambda op, x, root, one, half: op.Mul(op.Mul(x, half), inner(op, x, root, one), _outputs=["mul"])


def _gelu_of_halved_factor(inner: _Pattern) -> _Pattern:
    return lambda op, x, root, one, half: op.Mul(x, op.Mul(inner(op, x, root, one), half), _outputs=["mul"])


def _halved_gelu(inner: _Pattern) -> _Pattern:
    return lambda op, x, root, one, half: op.Mul(op.Mul(x, inner(op, x, root, one)), half, _outputs=["mul"])


_SIX = {"three": 3.0, "six": 6.0}
_SIXTH = {"three": 3.0, "sixth": 1 / 6}
_QUOTIENT = {"root": math.sqrt(2), "one": 1.0, "half": 0.5}
_PRODUCT = {"root": math.sqrt(0.5), "one": 1.0, "half": 0.5}

_PATTERNS: tuple[tuple[str, _Pattern, Mapping[str, float]], ...] = (
    ("HzSwish", _swish, {}),
    ("HzMish", _mish, {}),
    ("HzHardSwish", _hard_swish_divided, _SIX),
    ("HzHardSwish", _hard_swish_scaled, _SIXTH),
    ("HzHardSwish", _hard_swish_of_quotient, _SIX),
    ("HzHardSwish", _hard_swish_of_product, _SIXTH),
    *(
        ("HzGelu", gelu(inner), constants)
        for gelu in (_gelu_of_halved_input, _gelu_of_halved_factor, _halved_gelu)
        for inner, constants in ((_one_plus_erf_of_quotient, _QUOTIENT), (_one_plus_erf_of_product, _PRODUCT))
    ),
)

_NEEDED: Mapping[str, str] = MappingProxyType(
    {"HzSwish": "Sigmoid", "HzMish": "Softplus", "HzHardSwish": "Clip", "HzGelu": "Erf"}
)
"""An operator that every pattern of a result has, besides ``Mul``."""

_LAST = frozenset({"Mul", "Div"})
"""What the patterns end with."""


class CollapseRsqrt(NodePass):
    """``Reciprocal(Sqrt(x + epsilon))`` becomes ``HzRsqrt`` with attribute ``epsilon``, named as the ``Reciprocal``."""

    op_types = frozenset({"Reciprocal"})

    def rewrite(self, node: ir.Node) -> bool:
        root = _only_read_by(node.inputs[0], node, "Sqrt")
        if root is None:
            return False
        source, epsilon = root.inputs[0], 0.0
        shifted = _only_read_by(source, root, "Add")
        if shifted is not None:
            for x, other in (shifted.inputs, reversed(shifted.inputs)):
                array = constant(other)
                if x is not None and array is not None and array.size == 1 and x.shape == shifted.outputs[0].shape:
                    source, epsilon = x, float(array.reshape(()))
        collapse(node, "HzRsqrt", source, epsilon=epsilon)
        return True

    def remains(self, node: ir.Node) -> bool:
        """That of a root that nothing else reads."""
        return _only_read_by(node.inputs[0], node, "Sqrt") is not None


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
            if np.isclose(slope, 1 / 6, rtol=_RELATIVE_TOLERANCE) and offset == 0.5:
                return x
        return None


class CollapseSoftmax(NodePass):
    """``Softmax`` of the last axis between two ``Transpose`` that swap it with the channels becomes ``HzSoftmax``.

    As PyTorch writes a softmax over the channels before operator set 13 (the network min_softmax; provisional).
    """

    op_types = frozenset({"Transpose"})

    def rewrite(self, node: ir.Node) -> bool:
        found = self._softmax(node)
        if found is None:
            return False
        first, softmax = found
        collapse(node, "HzSoftmax", first.inputs[0], name=str(softmax.name), axis=1)
        return True

    def remains(self, node: ir.Node) -> bool:
        """The last of the three."""
        return self._softmax(node) is not None

    @staticmethod
    def _softmax(node: ir.Node) -> tuple[ir.Node, ir.Node] | None:
        """The first ``Transpose`` and the ``Softmax`` in front of the last ``Transpose``; None where it is another."""
        softmax = _only_read_by(node.inputs[0], node, "Softmax")
        first = None if softmax is None else _only_read_by(softmax.inputs[0], softmax, "Transpose")
        if softmax is None or first is None or attribute(softmax, "axis", 1) not in (-1, 3):
            return None
        perms = {tuple(attribute(transpose, "perm", ())) for transpose in (first, node)}
        return (first, softmax) if perms == {_CHANNELS_SWAPPED} else None


_CHANNELS_SWAPPED = (0, 3, 2, 1)
"""Permutation of a map that swaps its channels and its last axis; its own inverse."""


def _only_read_by(value: ir.Value | None, reader: ir.Node, op_type: str) -> ir.Node | None:
    """The node of ``op_type`` that computes ``value``, where only ``reader`` reads it."""
    producer = None if value is None else value.producer()
    if value is None or not is_standard(producer, op_type) or sole_consumer(value) is not reader:
        return None
    return producer
