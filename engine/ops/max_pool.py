"""HzQuantizedMaxPool: window maximum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given, stated
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, in_nhwc
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import ROW_WINDOWS
from engine.ops.core.schema import DATA_FORMAT, DILATIONS, KERNEL, OUTPUT_BIT, PADS, STRIDES, Schema
from engine.ops.core.windows import padded_planes, taps

if TYPE_CHECKING:
    from engine.chips import Chip


class MaxPool(QuantizedOperator):
    """Maximum over a window; padding never wins; the scale and width are the input's."""

    op_type = "HzQuantizedMaxPool"
    float_types: ClassVar[tuple[str, ...]] = ("MaxPool",)
    cost = CostKind.POOL
    rows = ROW_WINDOWS
    instructions = Instructions.MAX_POOL
    attributes: ClassVar[Schema] = {
        "kernel_shape": KERNEL,
        "pads": PADS,
        "strides": STRIDES,
        "dilations": DILATIONS,
        "ceil_mode": Attribute("int", 0, "1: round the output size up"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (reference/arithmetic.md 1, HzQuantizedMaxPool)."""
        x = np.asarray(inputs[0])
        return (reduce(np.maximum, taps(x, attributes, np.iinfo(x.dtype).min)).copy(),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Padded with the type's lowest value, so that a window of padding only gives that."""
        x, attributes = call.input(0), call.attributes
        padded = padded_planes(x, attributes, float(np.iinfo(x.dtype).min), emit)
        window = {name: [int(v) for v in attributes[name]] for name in ("kernel_shape", "strides", "dilations")}
        return (in_nhwc(emit.op("MaxPool", padded, **window), x.dtype, emit),)


class MaxPoolRule(FloatRule):
    """MaxPool on whole windows."""

    op_types = ("MaxPool",)
    passive = True

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        if len(shape_of(given(node, 0))) != 4:
            return because(Code.POOLING_2D)
        if len(node.outputs) > 1:
            return because(Code.INDICES)
        if max(attribute(node, "dilations", (1, 1))) > 1:
            return because(Code.DILATION, limit=1)
        if max(attribute(node, "kernel_shape")) > march.limits.pool_kernel:
            return because(Code.WINDOW, limit=march.limits.pool_kernel)
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0), unsigned=True)
        attributes = {
            "kernel_shape": list(attribute(node, "kernel_shape")),
            "pads": list(attribute(node, "pads", (0, 0, 0, 0))),
            "strides": list(attribute(node, "strides", (1, 1))),
            **stated(node, "ceil_mode"),
            "output_bit": x.bits,
            "data_format": "NHWC",
        }
        result = node.outputs[0]
        lowering.emit("HzQuantizedMaxPool", node, [x.value], attributes, result, bits=x.bits, scale=x.scale)
