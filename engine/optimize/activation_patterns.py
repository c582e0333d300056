"""The forms in which exporters write Swish, HardSwish, Mish and Gelu, as rules of onnxscript.

:class:`~engine.optimize.activations.CollapseActivations` applies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import pattern

from engine.ir import HORIZON_DOMAIN, HORIZON_VERSION
from engine.optimize.base import RELATIVE_TOLERANCE, clip_bounds, initializer_of

_Pattern = Callable[..., Any]


@cache
def rules(results: frozenset[str]) -> pattern.RewriteRuleSet:
    """The rules that give such operators, operands in any order."""
    chosen = [_rule(name, target, constants) for name, target, constants in _PATTERNS if name in results]
    return pattern.RewriteRuleSet(chosen, commute=True)


def _rule(op_type: str, target: _Pattern, constants: Mapping[str, float]) -> pattern.RewriteRule:
    """Replace ``target`` by ``op_type`` where the values called as in ``constants`` are these constants.

    In ``target``, ``mul`` is the value whose node gives the name and ``clip`` a ``Clip`` from 0 to 6. A Gelu says that
    it is exact, as all of ``swin``, ``vit_sep`` and ``vit_timm`` do.
    """

    def replacement(op: Any, x: ir.Value, mul: ir.Value, **_: ir.Value) -> ir.Value:
        attributes = {"approximate": "none"} if op_type == "HzGelu" else {}
        collapsed: ir.Value = getattr(op, op_type)(x, **attributes, _domain=HORIZON_DOMAIN, _version=HORIZON_VERSION)
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
    array = initializer_of(value)
    if array is None or array.size != 1:
        return False
    return math.isclose(float(array.reshape(())), expected, rel_tol=RELATIVE_TOLERANCE)


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

_LAST = frozenset({"Mul", "Div"})
"""What the patterns end with."""
