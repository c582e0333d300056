"""HzSQuantizedReduceMean: mean over one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, OutputStage, reduction, stage_of
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import integer_type, requantization, rescale, wrap_int32
from engine.ops.core.float_nodes import channels_of, given, nhwc_axis, reduced_axis, refused_reduction, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, limits
from engine.ops.core.reasons import Reason
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip

REDUCTION = {
    "axis": Attribute("int", doc="axis that is summed; it stays with length 1"),
    "accu_right_shift": Attribute("ints", (0,), "bits dropped from the sum before saturation to 16 bits"),
    "scale": Attribute("ints", (1,), "requantisation multiplier"),
    "out_shift": Attribute("ints", (0,), "rounding shift of the product"),
    "output_bit": OUTPUT_BIT,
    "data_format": DATA_FORMAT,
}
"""Attributes of the summing reductions; of every list only element 0 counts."""


class ReduceMean(QuantizedOperator):
    """The sum over one axis, requantised by 1 / n."""

    op_type = "HzSQuantizedReduceMean"
    float_types: ClassVar[tuple[str, ...]] = ("ReduceMean",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.SUM_OF_AXIS
    attributes: ClassVar[Schema] = REDUCTION

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (reference/arithmetic.md 1, HzSQuantizedReduceMean / HzSQuantizedReduceSum)."""
        total = np.asarray(inputs[0], np.int64).sum(axis=attributes["axis"], keepdims=True)
        if attributes["output_bit"] == 32:  # as the global pool; no file shows it
            return (wrap_int32(total).astype(np.int32),)
        shifts = attributes["accu_right_shift"][0], attributes["scale"][0], attributes["out_shift"][0]
        return (rescale(total, *shifts, bits=attributes["output_bit"]),)

    def error_bound(self, case: Case) -> Bound:
        return reduction(case, reduction_stage(case.attributes), mean=True)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Element [0] of the lists is used for everything."""
        attributes, bits = call.attributes, int(call.attributes["output_bit"])
        total = emit.op("ReduceSum", emit.wide(call.input(0)), np.array([attributes["axis"]]), keepdims=1)
        if bits == 32:
            return (emit.cast(emit.call("WrapInt32", total), np.int32),)
        narrowing = factor(attributes["accu_right_shift"][0])
        factors = factor(attributes["out_shift"][0], attributes["scale"][0])
        return (emit.cast(emit.call("RescaleRound", total, narrowing, factors, *limits(bits)), integer_type(bits)),)


def reduction_stage(attributes: Attributes) -> OutputStage | None:
    """The output stage; none where the output is the int32 sum."""
    return None if attributes["output_bit"] == 32 else stage_of(attributes, "scale", "accu_right_shift", "out_shift")


class ReduceMeanRule(FloatRule):
    """ReduceMean over one axis."""

    op_types = ("ReduceMean",)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_reduction(node, march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        length = shape_of(given(chain[0], 0))[reduced_axis(chain[0])]
        lower_reduction(chain[0], lowering, "HzSQuantizedReduceMean", length)


def lower_reduction(node: ir.Node, lowering: Lowering, op_type: str, count: int) -> None:
    """A requantised sum, divided by ``count``, over one axis (reference/arithmetic.md 2.6).

    The divisor and the scale of the result are multiplied in float32 (60 of 60 means asked, of float64 47).
    Of int16 it is int16, and requantised where its readers have int8 alone (6 of 6 before a MatMul).
    """
    result = node.outputs[0]
    x, output = lowering.integer(given(node, 0)), required(lowering.calibration(result))
    output = output.widened if x.bits == 16 else output
    shape = shape_of(given(node, 0))
    whole = np.float32(count) * np.float32(output.scales[0])
    split = requantization(np.float64(x.scale[0]) / np.float64(whole), output.bits)
    channels = channels_of(given(node, 0))
    attributes = {
        "axis": nhwc_axis(reduced_axis(node), len(shape)),
        "output_bit": output.bits,
        "accu_right_shift": split.right_shift.tolist() * channels,
        "scale": split.scale.tolist() * channels,
        "out_shift": split.out_shift.tolist() * channels,
    }
    lowering.emit(op_type, node, [x.value], attributes, result, bits=output.bits, scale=output.scales)
