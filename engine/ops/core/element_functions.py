"""The float functions that look-up tables are filled with (reference/arithmetic.md 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import before_calibration, constant_of, is_declined
from engine.ops.core.float_nodes import clip_limits, given, required
from engine.ops.core.special import error_function, exponential, sigmoid
from engine.ops.foreign.composite import COMPOSITES

Function = Callable[[NDArray[Any], Mapping[str, Any]], NDArray[Any]]


def _clip(x: NDArray[np.float64], attributes: Mapping[str, Any]) -> NDArray[Any]:
    return np.clip(x, attributes.get("min", -np.inf), attributes.get("max", np.inf))


def _elu(x: NDArray[np.float64], attributes: Mapping[str, Any]) -> NDArray[Any]:
    return np.where(x > 0, x, np.float32(attributes.get("alpha", 1.0)) * np.expm1(np.minimum(x, 0)))


def _leaky(x: NDArray[np.float64], attributes: Mapping[str, Any]) -> NDArray[Any]:
    return np.where(x >= 0, x, np.float32(attributes.get("alpha", 0.01)) * x)


def _selu(x: NDArray[np.float64], attributes: Mapping[str, Any]) -> NDArray[Any]:
    alpha = np.float32(attributes.get("alpha", 1.6732632))
    gamma = np.float32(attributes.get("gamma", 1.050701))
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hard_sigmoid(x: NDArray[np.float64], attributes: Mapping[str, Any]) -> NDArray[Any]:
    alpha, beta = np.float32(attributes.get("alpha", 0.2)), np.float32(attributes.get("beta", 0.5))
    product = x / 6 if alpha == np.float32(1 / 6) else alpha * x
    return np.clip(product + beta, 0, 1)


def _plain(function: Callable[[NDArray[np.float64]], NDArray[Any]]) -> Function:
    return lambda x, _: function(x)


STANDARD: Mapping[str, Function] = MappingProxyType(
    {
        "Relu": _plain(lambda x: np.maximum(x, 0)),
        "Clip": _clip,
        "Pow": lambda x, attributes: np.power(x, np.float64(attributes["exponent"])),
        "Elu": _elu,
        "Selu": _selu,
        "LeakyRelu": _leaky,
        "Sigmoid": _plain(sigmoid),
        "HardSigmoid": _hard_sigmoid,
        "Tanh": _plain(np.tanh),
        "Softplus": _plain(lambda x: np.logaddexp(x, 0)),
        "Softsign": _plain(lambda x: x / (1 + np.abs(x))),
        "Erf": _plain(error_function),
        "Exp": _plain(exponential),
        "Log": _plain(np.log),
        "Sqrt": _plain(np.sqrt),
        "Reciprocal": _plain(np.reciprocal),
        "Abs": _plain(np.abs),
        "Sign": _plain(np.sign),
        "Floor": _plain(np.floor),
        "Ceil": _plain(np.ceil),
        "Round": _plain(np.rint),
        "Sin": _plain(np.sin),
        "Cos": _plain(np.cos),
        "Tan": _plain(np.tan),
        "Asin": _plain(np.arcsin),
        "Acos": _plain(np.arccos),
        "Atan": _plain(np.arctan),
        "Sinh": _plain(np.sinh),
        "Cosh": _plain(np.cosh),
        "Asinh": _plain(np.arcsinh),
        "Acosh": _plain(np.arccosh),
        "Atanh": _plain(np.arctanh),
    }
)
"""Standard element-wise operators that become a table."""


def _tanh_of_exponentials(x: NDArray[Any]) -> NDArray[Any]:
    """``(e^x - e^-x) / (e^x + e^-x)``, and 1 where that is 1 in float32 at any rate: for x above 20."""
    with np.errstate(over="ignore"):
        up, down = exponential(np.minimum(x, _FLAT)), exponential(-x)
    return np.asarray((up - down) / (up + down), x.dtype)


def _softplus_of_exponential(x: NDArray[Any]) -> NDArray[Any]:
    """``log(1 + e^x)``, and x above 20."""
    up = exponential(np.minimum(x, _FLAT)) + x.dtype.type(1)
    return np.where(x > _FLAT, x, np.log(up.astype(np.float64)).astype(x.dtype))


def _elu_of_exponential(x: NDArray[Any], attributes: Mapping[str, Any]) -> NDArray[Any]:
    """``alpha * (e^x - 1)`` below zero."""
    below = exponential(np.minimum(x, x.dtype.type(0))) - x.dtype.type(1)
    return np.where(x > 0, x, np.float32(attributes.get("alpha", 1.0)) * below).astype(x.dtype)


def _in_float64(function: Function) -> Function:
    return lambda x, attributes: function(x.astype(np.float64), attributes).astype(x.dtype)


_FLAT = np.float32(20)
"""From there on a Softplus is its input, and the hyperbolic tangent 1 in float32."""

HARD_SIGMOID = "arithmetic.hard-sigmoid-slope"
"""The rule of the original for the int8 table of a HardSigmoid."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {**STANDARD, **{name: c.function for name, c in COMPOSITES.items() if c.function is not None}}
)
"""Every element-wise float operator, standard or collapsed from a pattern, by type."""


def element_function(node: ir.Node) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The float function that ``node`` applies to every element."""
    attributes = {name: value.value for name, value in node.attributes.items()}
    if node.op_type == "Pow":
        attributes["exponent"] = exponent_of(node)
    if node.op_type == "Clip":
        attributes = {k: v for k, v in zip(("min", "max"), clip_limits(node), strict=True) if v is not None}
    return lambda x: FUNCTIONS[node.op_type](x, attributes)


IN_WIDE_TABLES: Mapping[str, Function] = MappingProxyType(
    {
        **{name: _in_float64(FUNCTIONS[name]) for name in ("Cos", "HzGelu", "Log", "Sin")},
        "Elu": _elu_of_exponential,
        "HzMish": _plain(lambda x: x * _tanh_of_exponentials(_softplus_of_exponential(x))),
        "Softplus": _plain(_softplus_of_exponential),
        "Tanh": _plain(_tanh_of_exponentials),
    }
)
"""Functions that int16 tables compute in other steps than others do, of float32: last bits decide entries and lines."""


def wide_table_function(node: ir.Node) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The function that the int16 tables of ``node`` hold: that of exponentials, or in float64, for some.

    Of 222 tables of the original, 99 are of these, and every number of 85 of them is equal; the tables of other
    functions are as before (docs/evidence/agreement.md).
    """
    function = IN_WIDE_TABLES.get(node.op_type)
    attributes = {name: value.value for name, value in node.attributes.items()}
    return element_function(node) if function is None else lambda x: function(x, attributes)


def exponent_of(node: ir.Node) -> float:
    """The constant exponent of a ``Pow``."""
    return float(required(constant_of(before_calibration(given(node, 1)))).reshape(-1)[0])


IN_STEPS = frozenset({"Atan", "Elu", "HzHardSwish", "HzMish", "HzSwish", "Sinh", "Softplus", "Softsign", "Tanh"})
"""Functions whose int8 tables take every step in float32, as their int16 tables do; others are rounded once.

103 of 103 tables asked, in 102 of which that decides an entry near a half; those of Selu do not (2 of 2). RTMDet.
"""

_LARGEST_EXPONENT = float(np.log(np.finfo(np.float32).max))
"""Of what the exponential overflows float32 above it: 88.72."""


def table_function(node: ir.Node) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The function that the int8 table of ``node`` holds: its float function, but for HardSigmoid, Acosh and Tanh.

    Those in :data:`IN_STEPS` are computed as int16 tables are, of float32. That of Acosh is 0 below 1 (six networks on
    three marches, docs/evidence/field.md). That of Tanh saturates to -128 where ``exp(-x)`` overflows float32, and not
    at the upper end (all 256 entries of one table, provisional).
    """
    if node.op_type == "Tanh":
        return lambda x: np.where(x < -_LARGEST_EXPONENT, -np.inf, _tanh_of_exponentials(x.astype(np.float32)))
    if node.op_type == "Acosh":
        return lambda x: np.arccosh(np.maximum(x, 1))
    if node.op_type == "HardSigmoid" and not is_declined(node, HARD_SIGMOID):
        return hard_sigmoid_of_tables
    if node.op_type not in IN_STEPS:
        return element_function(node)
    in_steps = wide_table_function(node)
    return lambda x: in_steps(x.astype(np.float32))


def hard_sigmoid_of_tables(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """``clip(x / 6 + 0.5, 0, 1)``: so the original does, whose int8 tables ignore ``alpha``.

    All 23 tables of the four networks that have one hold this function (``db_text``, ``ghostnet``,
    ``mobilenet_v3``, and ``min_hardsigmoid`` with alpha 0.2). Other offsets than 0.5 were not seen.
    """
    return np.clip(x / 6 + 0.5, 0, 1)
