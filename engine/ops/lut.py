"""HzLut: a function of one int8 activation as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import Calibration, attribute, before_calibration, constant_of
from engine.march import March
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import round_away
from engine.ops.core.float_nodes import clip_limits, given, is_saturation, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.core.special import error_function, sigmoid
from engine.ops.foreign.composite import COMPOSITES
from engine.ops.lut2_layer import interpolation_tables, two_slopes
from engine.ops.prelu import ALPHA_SHIFT


class Lut(QuantizedOperator):
    """``y = table[x + 128]``."""

    op_type = "HzLut"
    cost = CostKind.LUT
    rows = SAME_ROWS
    instructions = Instructions.TABLE
    attributes: ClassVar[Schema] = {
        "lut_type": Attribute("str", "", "name of the function; a record"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8, table int8 (256,) (reference/arithmetic.md 1, HzLut)."""
        x, table = (np.asarray(value) for value in inputs)
        return (table.ravel()[x.astype(np.intp) + 128],)


Function = Callable[[NDArray[Any], Mapping[str, Any]], NDArray[Any]]

SIGMOID_INPUT = 5.498970
SIGMOID_OUTPUT = 0.9959256649017334
"""Thresholds of an int8 Sigmoid, whatever the data (reference/arithmetic.md 2.1)."""
SIGMOID_INPUT_16 = 11.09031
SIGMOID_OUTPUT_16 = 0.9999847412109375
HARD_SIGMOID_INPUT = 3.0
HARD_SIGMOID_OUTPUT = 1.0


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
    return np.clip(alpha * x + beta, 0, 1)


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
        "Exp": _plain(np.exp),
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

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {**STANDARD, **{name: c.function for name, c in COMPOSITES.items() if c.function is not None}}
)
"""Every element-wise float operator, standard or collapsed from a pattern, by type."""


class LutRule(FloatRule):
    """Element-wise functions of one activation: a table for int8, interpolated tables for int16."""

    op_types = tuple(FUNCTIONS)
    one_width = True

    def tie(self, node: ir.Node) -> Tie:
        """The inputs of LeakyRelu and of a symmetric Clip take the output's threshold (reference/arithmetic.md 2.1)."""
        return Tie.INPUT_TAKES_OUTPUT if node.op_type == "LeakyRelu" or is_saturation(node) else Tie.NONE

    def refusal(self, node: ir.Node, march: March) -> str | None:
        if node.op_type != "Pow":
            return None
        exponent = constant_of(before_calibration(given(node, 1)))
        return None if exponent is not None and exponent.size == 1 else "its exponent is not a constant scalar"

    def fixed_thresholds(self, node: ir.Node, qtype: str) -> tuple[float | None, float | None]:
        """int8 gates have fixed ranges; int16 ones those that the original writes (reference/arithmetic.md 4.6)."""
        match node.op_type:
            case "Sigmoid" if qtype == "int16":
                return (SIGMOID_INPUT_16, SIGMOID_OUTPUT_16)
            case "Sigmoid":
                return (SIGMOID_INPUT, SIGMOID_OUTPUT)
            case "HardSigmoid":
                return (HARD_SIGMOID_INPUT, HARD_SIGMOID_OUTPUT)
        return (None, None)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        output = required(lowering.calibration(result))
        if is_saturation(node):
            lowering.alias(result, lowering.integer(given(node, 0), like=output))
            return
        if output.bits == 16:
            lower_int16(node, output, lowering)
            return
        if node.op_type == "LeakyRelu" and lowering.march.leaky_relu_operator:
            op_type, inputs = "HzLeakyRelu", [lowering.integer(given(node, 0), like=output).value]
            attributes: dict[str, Any] = leaky_attributes(attribute(node, "alpha", 0.01))
        else:
            op_type, x = "HzLut", lowering.integer(given(node, 0))
            table = lookup_table(node, x.scale, output.scales)
            inputs = [x.value, lowering.initializer(f"{node.name}_table_params", table)]
            attributes = {"lut_type": node.op_type.removeprefix("Hz").lower()}
        attributes["data_format"] = "NHWC"
        lowering.emit(op_type, node, inputs, attributes, result, bits=8, scale=output.scales)


def lower_int16(node: ir.Node, output: Calibration, lowering: Lowering) -> None:
    """HzLut2Layer of ``node``."""
    x = lowering.integer(given(node, 0), like=replace(required(lowering.calibration(given(node, 0))), qtype="int16"))
    function = element_function(node)
    slopes = OUTER_SLOPES.get(node.op_type)
    if slopes is not None:
        low = float(np.float32(attribute(node, "alpha", 0.01))) if node.op_type == "LeakyRelu" else slopes[0]
        ratio = float(x.scale[0]) / float(output.scales[0])
        attributes = two_slopes(low * ratio, slopes[1] * ratio)
    else:
        attributes = interpolation_tables(function, float(x.scale[0]), float(output.scales[0]))
    attributes = {
        "lut_type": node.op_type.removeprefix("Hz").lower(),
        "output_bit": 16,
        "rounding_method": "ROUND",
        "symmetry_mode": "NONE",
        **attributes,
        "data_format": "NHWC",
    }
    lowering.emit("HzLut2Layer", node, [x.value], attributes, node.outputs[0], bits=16, scale=output.scales)


OUTER_SLOPES: Mapping[str, tuple[float, float]] = MappingProxyType({"Relu": (0.0, 1.0), "LeakyRelu": (0.01, 1.0)})
"""Functions of two straight lines through zero: slope below and above it."""


def element_function(node: ir.Node) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The float function that ``node`` applies to every element."""
    attributes = {name: value.value for name, value in node.attributes.items()}
    if node.op_type == "Pow":
        attributes["exponent"] = float(required(constant_of(before_calibration(given(node, 1)))).reshape(-1)[0])
    if node.op_type == "Clip":
        attributes = {k: v for k, v in zip(("min", "max"), clip_limits(node), strict=True) if v is not None}
    return lambda x: FUNCTIONS[node.op_type](x, attributes)


def lookup_table(
    node: ir.Node, input_scale: NDArray[np.float32], output_scale: NDArray[np.float32]
) -> NDArray[np.int8]:
    """``clip(away(f((i - 128) * xs) / ys), -128, 127)``; NaN becomes -128 (reference/arithmetic.md 2.7)."""
    x = np.arange(-128, 128) * np.float64(input_scale[0])
    with np.errstate(all="ignore"):
        y = element_function(node)(x) / np.float64(output_scale[0])
        rounded = np.clip(round_away(y), -128, 127)
    return np.where(np.isnan(rounded), -128, rounded).astype(np.int8)


def leaky_attributes(alpha: float) -> dict[str, Any]:
    """Slope of HzLeakyRelu in 7 fraction bits."""
    return {"alpha_scale": round(alpha * (1 << ALPHA_SHIFT)), "alpha_shift": ALPHA_SHIFT}
