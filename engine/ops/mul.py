"""HzSElementwiseMul: product of two activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ops.add import ELEMENTWISE_OUTPUT, elementwise_stage, portable_rescaled, requantize_elementwise
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, coefficient
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import requantization_of_pair, saturate, shift_right, to_type
from engine.ops.core.float_nodes import given, refused_broadcast, refused_constant, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Reason
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class Mul(QuantizedOperator):
    """``x * e``, requantised; operands broadcast (a squeeze-and-excite gate is 1x1)."""

    op_type = "HzSElementwiseMul"
    float_types: ClassVar[tuple[str, ...]] = ("Mul",)
    cost = CostKind.MUL
    rows = SAME_ROWS
    instructions = Instructions.PRODUCT
    attributes: ClassVar[Schema] = {
        "add_rounding_bias": Attribute(
            "int", 0, "1 (bernoulli2): half an output unit is added first, both shifts floor"
        ),
        **ELEMENTWISE_OUTPUT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x and e, int8 or int16 (reference/arithmetic.md 1, HzSElementwiseMul)."""
        x, e = (np.asarray(value, np.int64) for value in inputs)
        if not attributes["add_rounding_bias"]:
            return (requantize_elementwise(x * e, attributes),)
        accu_shift, scale = attributes["accu_right_shift"], attributes["output_scale"]
        out_shift = attributes["output_right_shift"]
        half = np.rint(np.exp2(out_shift + accu_shift) / (2.0 * scale)).astype(np.int64)
        product = saturate(shift_right(x * e + half, accu_shift), 16) * scale
        return (to_type(shift_right(product, out_shift), attributes["output_bit"]),)

    def error_bound(self, case: Case) -> Bound:
        """bernoulli2 adds the rounding constant to the accumulator, itself rounded."""
        attributes, (x, e) = case.attributes, case.operands
        stage = elementwise_stage(attributes)
        unit = stage.unit * case.scale
        error = coefficient(1.0, unit, x.scale * e.scale, x.largest * e.largest)
        return np.asarray(error + stage.loss(case.qmax) * case.scale + 0.5 * unit * attributes["add_rounding_bias"])

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        attributes = call.attributes
        product = emit.op("Mul", emit.wide(call.input(0)), emit.wide(call.input(1)))
        if not attributes["add_rounding_bias"]:
            return (portable_rescaled(product, attributes, emit),)
        shifts = attributes["accu_right_shift"] + attributes["output_right_shift"]
        half = np.rint(np.exp2(shifts) / (2.0 * attributes["output_scale"]))
        return (portable_rescaled(emit.op("Add", product, half), {**attributes, "rounding_method": "FLOOR"}, emit),)


class MulRule(FloatRule):
    """Product of two activations."""

    op_types = ("Mul",)

    def activations(self, node: ir.Node) -> tuple[int, ...]:
        return (0, 1)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_broadcast(node, march)

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_constant(node, march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        result = node.outputs[0]
        x, e = (lowering.integer(given(node, index)) for index in (0, 1))
        output = required(lowering.calibration(result))
        product = np.float64(x.scale[0] * e.scale[0])  # rounded to float32
        split = requantization_of_pair(product / np.float64(output.scales[0]), output.bits)
        rounding = {"add_rounding_bias": 1} if lowering.march.rounding_bias_in_mul else {}
        attributes = {
            "accu_right_shift": split.right_shift.tolist(),
            "output_scale": split.scale.tolist(),
            "output_right_shift": split.out_shift.tolist(),
            "rounding_method": "ROUND",
            **rounding,
            "output_bit": output.bits,
            "data_format": "NHWC",
        }
        inputs = [x.value, e.value]
        lowering.emit("HzSElementwiseMul", node, inputs, attributes, result, bits=output.bits, scale=output.scales)
