"""HzSQuantizedGlobalAveragePool: mean over height and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_STEPS, shape_of
from engine.ops.average_pool import lower_in_steps
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, reduction, stage_of
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import integer_type, requantization, round_shift, saturate, to_type, wrap_int32
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, limits
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, ROUNDING, Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class GlobalAveragePool(QuantizedOperator):
    """The sum over a map, requantised by 1 / (H * W); unlike elsewhere both shifts round half up."""

    op_type = "HzSQuantizedGlobalAveragePool"
    float_types: ClassVar[tuple[str, ...]] = ("GlobalAveragePool",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.GLOBAL_AVERAGE_POOL
    attributes: ClassVar[Schema] = {
        "accu_right_shift": Attribute("ints", (0,), "rounding shift of the sum, per channel"),
        "output_scale": Attribute("ints", (1,), "requantisation multiplier, per channel"),
        "output_right_shift": Attribute("ints", (0,), "rounding shift of the product, per channel"),
        "rounding_method": ROUNDING,
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 NHWC; output (N, 1, 1, C) (reference/arithmetic.md 1, HzSQuantizedGlobalAveragePool)."""
        total = np.asarray(inputs[0], np.int64).sum(axis=(1, 2), keepdims=True)
        if attributes["output_bit"] == 32:  # before a dequantisation: the sum itself (``activations_a_a``)
            return (wrap_int32(total).astype(np.int32),)
        narrowed = saturate(round_shift(total, attributes["accu_right_shift"]), 16)
        y = round_shift(narrowed * attributes["output_scale"], attributes["output_right_shift"])
        return (to_type(y, attributes["output_bit"]),)

    def error_bound(self, case: Case) -> Bound:
        names = ("output_scale", "accu_right_shift", "output_right_shift")
        stage = None if case.attributes["output_bit"] == 32 else stage_of(case.attributes, *names)
        return reduction(case, stage, mean=True)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Both shifts round half up."""
        attributes, bits = call.attributes, int(call.attributes["output_bit"])
        total = emit.op("ReduceSum", emit.wide(call.input(0)), np.array([1, 2]), keepdims=1)
        if bits == 32:
            return (emit.cast(emit.call("WrapInt32", total), np.int32),)
        narrowed = emit.call("Saturate16", emit.call("ShiftRound", total, factor(attributes["accu_right_shift"])))
        factors = factor(attributes["output_right_shift"], attributes["output_scale"])
        return (emit.cast(emit.call("RequantizeRound", narrowed, factors, *limits(bits)), integer_type(bits)),)


class GlobalAveragePoolRule(FloatRule):
    """GlobalAveragePool: requantised, or the sum itself where it is dequantised (``activations_a``, ``squeezenet``)."""

    op_types = ("GlobalAveragePool",)
    int16_inputs = False
    sums_exactly = True

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return None if len(shape_of(given(node, 0))) == 4 else because(Code.POOLING_2D)

    def is_passive(self, node: ir.Node) -> bool:
        """Where it is taken in steps."""
        return MARK_STEPS in node.metadata_props

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT if MARK_STEPS in node.metadata_props else Tie.NONE

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        if MARK_STEPS in node.metadata_props:
            lower_in_steps(node, lowering)
            return
        result = node.outputs[0]
        x, output = lowering.integer(given(node, 0)), lowering.calibration(result)
        _, channels, height, width = shape_of(given(node, 0))
        attributes: dict[str, Any] = {"output_bit": 32, "data_format": "NHWC"}
        scale, bits = x.scale / np.float32(height * width), 32
        if output is not None:
            scale, bits = output.scales, output.bits
            whole = np.float32(height * width) * np.float32(scale[0])  # 72 of 72 asked, of float64 62
            split = requantization(np.float64(x.scale[0]) / np.float64(whole), bits)
            attributes |= {
                "accu_right_shift": split.right_shift.tolist() * channels,
                "output_scale": split.scale.tolist() * channels,
                "output_right_shift": split.out_shift.tolist() * channels,
                "rounding_method": "ROUND",
                "output_bit": bits,
            }
        lowering.emit("HzSQuantizedGlobalAveragePool", node, [x.value], attributes, result, bits=bits, scale=scale)
