"""HzLut: a function of one int8 activation as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.graph.scales import Gate
from engine.ir import MARK_PART_OF, Calibration, attribute, before_calibration, constant_of, is_calibration, is_declined
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, Tie
from engine.ops.core.element_functions import FUNCTIONS, exponent_of, table_function, wide_table_function
from engine.ops.core.fixed_point import round_away
from engine.ops.core.float_nodes import clip_limits, given, is_saturation, required
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.core.tables import TableOperator
from engine.ops.lut2_layer import WHOLE, Curve, Symmetry, interpolation_tables, two_slopes
from engine.ops.prelu import slope_integers

if TYPE_CHECKING:
    from engine.chips import Chip


class Lut(TableOperator):
    """``y = table[x + 128]``."""

    op_type = "HzLut"
    attributes: ClassVar[Schema] = {
        "lut_type": Attribute("str", "", "name of the function; a record"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8, table int8 (256,) (reference/arithmetic.md 1, HzLut)."""
        x, table = (np.asarray(value) for value in inputs)
        return (table.ravel()[x.astype(np.intp) + 128],)


UNDEFINED_ENTRIES = "arithmetic.undefined-entries"
"""The rule of the original for entries of a table for which its function is not defined."""

SIGMOID_INPUT = 5.498970
SIGMOID_INPUT_16 = 11.09031
"""Thresholds of what a Sigmoid alone reads, whatever the data (reference/arithmetic.md 2.1)."""
SHIFTED_INPUT = 5.644179821014404
SHIFTED_INPUT_16 = 11.090324
"""Thresholds of what an exponential of a Softmax on the BPU reads, whatever the data.

int8: golden conversion ``bpu_softmax3`` and the published log of YOLOv13n (5.64418, twice, of logits below 0.002).
int16: the published logs of YOLOv10n (11.090324), YOLO11n and YOLO11n-pose; there its exponential is half a step, as
``ln(2 * 32767)`` is that. What the int8 one comes from is not known.
"""
HARD_SIGMOID_INPUT = 3.0


class LutRule(FloatRule):
    """Element-wise functions of one activation: a table for int8, interpolated tables for int16."""

    op_types = tuple(FUNCTIONS)
    wide_results_of_wide_inputs = True

    def tie(self, node: ir.Node) -> Tie:
        """The inputs of LeakyRelu and of a symmetric Clip take the output's threshold (reference/arithmetic.md 2.1)."""
        return Tie.INPUT_TAKES_OUTPUT if node.op_type == "LeakyRelu" or is_saturation(node) else Tie.NONE

    def keeps_threshold(self, node: ir.Node) -> bool:
        """A Relu or Clip that no convolution absorbs, of either width.

        Source: golden conversions ``i16_conv1`` and ``i16_res``; Clips of five pairs of limits behind a MaxPool.
        """
        return node.op_type in ("Relu", "Clip") and not is_saturation(node)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if node.op_type != "Pow":
            return None
        exponent = constant_of(before_calibration(given(node, 1)))
        return None if exponent is not None and exponent.size == 1 else because(Code.EXPONENT_NOT_SCALAR)

    def fixed_thresholds(self, node: ir.Node, qtype: str) -> tuple[float | None, float | None]:
        """What gates alone read has a fixed range of each type (reference/arithmetic.md 4.6)."""
        match node.op_type:
            case "Sigmoid":
                return (SIGMOID_INPUT_16 if qtype == "int16" else SIGMOID_INPUT, None)
            case "Exp" if MARK_PART_OF in node.metadata_props:
                return (SHIFTED_INPUT_16 if qtype == "int16" else SHIFTED_INPUT, None)
            case "HardSigmoid":
                return (HARD_SIGMOID_INPUT, None)
        return (None, None)

    def gate(self, node: ir.Node) -> Gate | None:
        return Gate(node.op_type) if node.op_type in tuple(Gate) else None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        output = required(lowering.calibration(result))
        if is_saturation(node):
            lowering.alias(result, lowering.integer(given(node, 0), like=output))
            return
        if 16 in (output.bits, required(lowering.calibration(given(node, 0))).bits):
            lower_int16(node, output, lowering)
            return
        if node.op_type == "LeakyRelu" and lowering.march.leaky_relu_operator:
            source = given(node, 0)  # what a Split gives as it is is not requantised (2 of 2 on bernoulli2)
            like = output if is_calibration(source.producer()) else None
            op_type, inputs = "HzLeakyRelu", [lowering.integer(source, like=like).value]
            attributes: dict[str, Any] = leaky_attributes(attribute(node, "alpha", 0.01))
        else:
            op_type, x = "HzLut", lowering.integer(given(node, 0))
            table = lookup_table(node, x.scale, output.scales)
            inputs = [x.value, lowering.initializer(f"{node.name}_table_params", table)]
            attributes = {"lut_type": node.op_type.removeprefix("Hz").lower()}
        attributes["data_format"] = "NHWC"
        lowering.emit(op_type, node, inputs, attributes, result, bits=8, scale=output.scales)


def lower_int16(node: ir.Node, output: Calibration, lowering: Lowering) -> None:
    """HzLut2Layer of ``node``, whose input is int16; its result is that or int8."""
    x = lowering.integer(given(node, 0), like=required(lowering.calibration(given(node, 0))).widened)
    slopes = OUTER_SLOPES.get(node.op_type)
    scales = float(x.scale[0]), float(output.scales[0])
    if slopes is not None:
        low = float(np.float32(attribute(node, "alpha", 0.01))) if node.op_type == "LeakyRelu" else slopes[0]
        attributes = {"symmetry_mode": Symmetry.NONE.value, **two_slopes(low, slopes[1], *scales)}
    else:
        attributes = interpolation_tables(wide_table_function(node), *scales, curve_of(node), output.bits)
    attributes = {
        "lut_type": node.op_type.removeprefix("Hz").lower(),
        "output_bit": output.bits,
        "rounding_method": "ROUND",
        **attributes,
        "data_format": "NHWC",
    }
    lowering.emit("HzLut2Layer", node, [x.value], attributes, node.outputs[0], bits=output.bits, scale=output.scales)


OUTER_SLOPES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"Relu": (0.0, 1.0), "LeakyRelu": (0.01, 1.0), "Abs": (-1.0, 1.0)}
)
"""Functions of two straight lines through zero: slope below and above it."""

_ODD = Curve(first=0.0, symmetry=Symmetry.ODD)
_EVEN = Curve(first=0.0, symmetry=Symmetry.EVEN)
NEAR_POLE = 1e-6
"""Where the tables of functions with a pole at zero are defined from."""
NEAR_POLE_OF_POW = 1e-5
NEAR_POLE_OF_ATANH = 0.9999

CURVES: Mapping[str, Curve] = MappingProxyType(
    {
        "HzHardSwish": Curve(low=-3.0, high=3.0, below=0.0),
        "HardSigmoid": Curve(low=-HARD_SIGMOID_INPUT, below=0.0, even=True),
        "Elu": Curve(high=0.0, above=1.0),
        "HzSwish": Curve(low=-13.0, high=13.0),
        "HzGelu": Curve(low=-5.0, high=5.0),
        "HzMish": Curve(low=-10.0, high=7.0),
        "Softplus": Curve(high=20.0, above=1.0),
        "Sqrt": Curve(first=0.0),
        "Log": Curve(first=NEAR_POLE, pole=True),
        "HzRsqrt": Curve(first=NEAR_POLE, pole=True),
        "Reciprocal": Curve(first=NEAR_POLE, pole=True, symmetry=Symmetry.ODD),
        "Acos": Curve(first=-1.0, last=1.0, even=True),
        "Asin": Curve(first=0.0, last=1.0, even=True, symmetry=Symmetry.ODD),
        "Atanh": Curve(first=0.0, last=NEAR_POLE_OF_ATANH, symmetry=Symmetry.ODD),
        "Acosh": Curve(first=1.0, even=True),
        **dict.fromkeys(("Asinh", "Atan", "Erf", "Sin", "Sinh", "Softsign", "Tan", "Tanh"), _ODD),
        **dict.fromkeys(("Cos", "Cosh"), _EVEN),
    }
)
"""Where functions are defined and bent, and which halves of them are alike.

A table holds its function where that is defined, and negative inputs of odd and even functions take the values of
their magnitudes: so no entry comes from a NaN or an infinity. Source: the original's tables of all of them
(docs/evidence/field.md, recorded in tests/golden/edges). Bends in a part of the range only are shown by 33 tables of
Swish (``yolov8_nhwc``), nine of HardSwish and HardSigmoid (``mobilenet_v3``) and one of Elu
(``activations_a``), provisional each: one network; six of Gelu, all equal, and two of Mish, whose outer lines are not
(blocks of seeds 33 and 34, docs/evidence/agreement.md). Softplus, Sigmoid and Exp have segments in the whole range.
Above 3 a HardSigmoid has no input.
"""


BELOW_LARGEST = Curve(last=0.0)
"""The exponential of a Softmax: a score less the largest is never positive (12 tables of 11 conversions asked)."""


def curve_of(node: ir.Node) -> Curve:
    """Where the function of ``node`` is defined and bent.

    A power of a whole exponent is odd or even, any other is one of positive numbers; a negative exponent has a pole.
    """
    if node.op_type == "Clip":
        low, high = clip_limits(node)
        return Curve(low=-np.inf if low is None else low, high=np.inf if high is None else high, even=True)
    if node.op_type == "Selu":
        return Curve(high=0.0, above=float(np.float32(attribute(node, "gamma", 1.050701))))
    if node.op_type == "Exp" and MARK_PART_OF in node.metadata_props:
        return BELOW_LARGEST
    if node.op_type != "Pow":
        return CURVES.get(node.op_type, WHOLE)
    exponent = exponent_of(node)
    symmetry = Symmetry.NONE if exponent % 1 else Symmetry.ODD if exponent % 2 else Symmetry.EVEN
    whole_power = symmetry is not Symmetry.NONE and exponent >= 0
    return Curve(first=0.0 if whole_power else NEAR_POLE_OF_POW, pole=exponent < 0, symmetry=symmetry)


def lookup_table(
    node: ir.Node, input_scale: NDArray[np.float32], output_scale: NDArray[np.float32]
) -> NDArray[np.int8]:
    """``clip(away(f((i - 128) * xs) / ys), -128, 127)`` (reference/arithmetic.md 2.7).

    NaN becomes -128 as in the original (:data:`UNDEFINED_ENTRIES`), with ``compatibility: clean`` the nearest entry.

    Product, result of the function and quotient are float32 each. That decides the ties of LeakyRelu 0.1 (6 tables of
    ``darknet``) and HardSigmoid; it changes none of 2,000 tables of other functions.
    """
    with np.errstate(all="ignore"):
        x = np.arange(-128, 128).astype(np.float32) * np.float32(input_scale[0])
        y = table_function(node)(x.astype(np.float64)).astype(np.float32) / np.float32(output_scale[0])
        rounded = np.clip(round_away(y.astype(np.float64)), -128, 127)
    undefined = np.isnan(rounded)
    if is_declined(node, UNDEFINED_ENTRIES) and not undefined.all():
        entries = np.arange(256)
        defined = entries[~undefined]
        rounded = rounded[defined[np.abs(entries[:, None] - defined).argmin(axis=1)]]
    return np.where(np.isnan(rounded), -128, rounded).astype(np.int8)


def leaves_domain(node: ir.Node) -> bool:
    """Whether an integer that ``node`` can read stands for a number for which its function is not defined.

    None does where the function is defined everywhere, or for all positive numbers and zero and nothing gives others.
    """
    with np.errstate(all="ignore"):
        probe = np.array([-1e30, -2.0, -1.0, -1e-6, 0.0, 1e-6, 0.5, 1.0, 2.0, 1e30])
        undefined = probe[np.isnan(table_function(node)(probe))]
    source = given(node, 0)
    producer = before_calibration(source).producer()
    return bool(undefined.size) and not (undefined.max() < 0 and producer is not None and _never_negative(producer))


def _never_negative(node: ir.Node) -> bool:
    """Whether the results of ``node`` are never negative."""
    return node.op_type in ("Relu", "Abs", "Exp", "Sigmoid", "HardSigmoid", "Softplus", "Softmax", "Sqrt") or (
        node.op_type == "Pow" and curve_of(node).symmetry is Symmetry.EVEN
    )


def leaky_attributes(alpha: float) -> dict[str, Any]:
    """Slope of HzLeakyRelu."""
    scale, shift = slope_integers(np.asarray(alpha))
    return {"alpha_scale": int(scale), "alpha_shift": int(shift)}
