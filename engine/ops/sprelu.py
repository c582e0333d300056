"""HzSPRelu: PReLU with a 16-bit slope per channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.ir import before_calibration, constant_of, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, coefficient, float64, stage_of
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import (
    integer_type,
    requantization_of_pair,
    rescale,
    round_away,
    round_shift,
    to_type,
)
from engine.ops.core.float_nodes import given, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, by_sign, factor, limits
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.prelu import slope_attributes

if TYPE_CHECKING:
    from engine.chips import Chip


class SPRelu(QuantizedOperator):
    """Both sides are requantised, the negative one after multiplication by its slope."""

    op_type = "HzSPRelu"
    float_types: ClassVar[tuple[str, ...]] = ("PRelu",)
    cost = CostKind.SLOPE
    rows = SAME_ROWS
    instructions = Instructions.TABLE
    attributes: ClassVar[Schema] = {
        "positive_scale": Attribute("ints", (1,), "multiplier where x >= 0"),
        "positive_right_shift": Attribute("ints", (0,), "rounding shift where x >= 0"),
        "accu_right_shift": Attribute("ints", (0,), "bits dropped from x * slope before saturation to 16 bits"),
        "negative_scale": Attribute("ints", (1,), "multiplier where x < 0"),
        "negative_right_shift": Attribute("ints", (0,), "rounding shift where x < 0"),
        "output_bit": Attribute("int", 0, "width of the output; that of x where it is 0, as in the original's"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC, slope int16 that broadcasts to it (reference/arithmetic.md 1, HzSPRelu)."""
        bits = attributes["output_bit"] or 8 * np.asarray(inputs[0]).dtype.itemsize
        x, slope = (np.asarray(value, np.int64) for value in inputs)
        positive = to_type(round_shift(x * attributes["positive_scale"], attributes["positive_right_shift"]), bits)
        shifts = attributes["accu_right_shift"], attributes["negative_scale"], attributes["negative_right_shift"]
        return (np.where(x >= 0, positive, rescale(x * slope, *shifts, bits=bits)),)

    def error_bound(self, case: Case) -> Bound:
        """The worse of the two sides."""
        x, attributes = case.operands[0], case.attributes
        slope = float64(constant_of(before_calibration(given(case.chain[0], 1))))
        stage = stage_of(attributes, "negative_scale", "accu_right_shift", "negative_right_shift")
        integers = float64(constant_of(case.node.inputs[1]))
        negative = coefficient(integers, stage.unit * case.scale, slope * x.scale, x.largest)
        gain = attributes["positive_scale"] * np.exp2(-attributes["positive_right_shift"].astype(np.float64))
        positive = coefficient(gain, case.scale, x.scale, x.largest) + 0.5 * case.scale
        return np.maximum(negative + stage.loss(case.qmax) * case.scale, positive)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Both sides are requantised, the negative one after multiplication by its slope."""
        attributes = call.attributes
        bits = int(attributes["output_bit"]) or 8 * call.input(0).dtype.itemsize
        x = emit.wide(call.input(0))
        above = factor(attributes["positive_right_shift"], attributes["positive_scale"])
        positive = emit.call("RequantizeRound", x, above, *limits(bits))
        product = emit.op("Mul", x, emit.wide(call.input(1)))
        below = factor(attributes["negative_right_shift"], attributes["negative_scale"])
        negative = emit.call("RescaleRound", product, factor(attributes["accu_right_shift"]), below, *limits(bits))
        return (emit.cast(by_sign(x, positive, negative, emit), integer_type(bits)),)


class PReluRule(FloatRule):
    """PRelu with a constant slope: 16-bit slopes, or those of a march that has an operator of its own for it."""

    op_types = ("PRelu",)

    def tie(self, node: ir.Node) -> Tie:
        return Tie.INPUT_TAKES_OUTPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        slope = constant_of(before_calibration(given(node, 1)))
        if slope is None:
            return because(Code.NOT_CONSTANT, input="slope")
        if len(shape_of(given(node, 0))) != 4 or slope.size not in (1, shape_of(given(node, 0))[1]):
            return because(Code.RANK_4_SLOPES)
        if not march.negative_slopes and slope.min() < 0:
            return because(Code.NEGATIVE_SLOPE)
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        """What is not calibrated keeps the type and scale of what is read."""
        node = chain[0]
        result = node.outputs[0]
        own = lowering.calibration(result)
        x = lowering.integer(given(node, 0), like=own, per_channel=True)
        bits, scales = (x.bits, x.scale) if own is None else (own.bits, own.scales)
        slope = required(lowering.constant(given(node, 1))).reshape(-1)
        inputs = [x.value]
        if lowering.march.leaky_relu_operator:
            op_type, attributes = "HzPRelu", slope_attributes(slope)
        else:
            op_type = "HzSPRelu"
            integers, attributes = sprelu_integers(slope, shape_of(result)[1], x.scale, scales, bits)
            inputs.append(lowering.initializer(f"{node.name}_quantized_slope", integers))
        lowering.emit(op_type, node, inputs, attributes, result, bits=bits, scale=scales)


def sprelu_integers(
    slope: Array, channels: int, input_scale: NDArray[np.float32], scales: NDArray[np.float32], bits: int
) -> tuple[NDArray[np.int16], dict[str, object]]:
    """int16 slopes, shape (1, 1, 1, channels), and attributes; the input has the output's scale.

    Source: reference/arithmetic.md 2.6, PRelu.
    """
    # The product of the scales is float32: slopes of powers of two get the multiplier 16384 or 16385 by its rounding.
    scale = np.float32(max(np.abs(slope).max(), np.finfo(np.float32).tiny)) / np.float32(32767)
    integers = np.clip(round_away(slope.astype(np.float32) / scale), -32767, 32767).astype(np.int16)
    product = np.float64(np.float32(input_scale[0]) * scale)
    split = requantization_of_pair(product / np.float64(scales[0]), bits)
    attributes = {
        "positive_scale": [1],
        "positive_right_shift": [0],
        "accu_right_shift": split.right_shift.tolist(),
        "negative_scale": split.scale.tolist(),
        "negative_right_shift": split.out_shift.tolist(),
        "data_format": "NHWC",
    }
    return np.broadcast_to(integers.reshape(1, 1, 1, -1), (1, 1, 1, channels)), attributes
