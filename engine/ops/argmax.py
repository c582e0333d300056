"""HzQuantizedArgMax: index of the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, Quantized, QuantizedOperator
from engine.ops.core.bounds import POSITIONS, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip

UNSCALED = np.ones(1, np.float32)
"""Scale of positions."""


WRAPPED_INDEX = 128
"""First index that int8 cannot hold."""


class ArgMax(QuantizedOperator):
    """Index of the first maximum, stored as int8: an index above 127 wraps (199 becomes -57), as in the original."""

    op_type = "HzQuantizedArgMax"
    float_types: ClassVar[tuple[str, ...]] = ("ArgMax", "ArgMin")
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.POSITION_OF_MAXIMUM
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", 3, "axis that is searched; it stays with length 1"),
        "keepdims": Attribute("int", 1, "0: the axis is dropped"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (reference/arithmetic.md, additional operators)."""
        x = np.asarray(inputs[0])
        index = np.argmax(x, axis=attributes["axis"], keepdims=bool(attributes["keepdims"]))
        return (index.astype(np.int8),)

    def error_bound(self, case: Case) -> Bound:
        return POSITIONS

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """The index wraps in int8."""
        x, axis = call.input(0), int(call.attributes["axis"])
        keepdims = int(bool(call.attributes["keepdims"]))
        index = emit.op("ArgMax", emit.cast(x.value, np.float32), axis=axis, keepdims=keepdims)
        if x.shape[axis] > WRAPPED_INDEX:
            raised = emit.op("Mod", emit.op("Add", index, np.int64(128)), np.int64(256))
            index = emit.op("Sub", raised, np.int64(128))
        return (emit.cast(index, np.int8),)


class ArgMaxRule(FloatRule):
    """ArgMax over the channels of a map; a Cast on the CPU follows."""

    op_types: ClassVar[tuple[str, ...]] = ("ArgMax",)
    int16_outputs = False
    index_outputs = (0,)

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        shape = shape_of(given(node, 0))
        if len(shape) != 4 or attribute(node, "axis", 0) % len(shape) != 1 or not attribute(node, "keepdims", 1):
            return because(Code.RANK_4_SEARCH, op_type=node.op_type)
        if attribute(node, "select_last_index", 0):
            return because(Code.LAST_INDEX, op_type=node.op_type)
        if shape[1] > march.limits.argmax_channels:
            return because(Code.SEARCHED_CHANNELS, length=shape[1], limit=march.limits.argmax_channels)
        return None

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        emit_argmax(chain[0], lowering.integer(given(chain[0], 0)), lowering)


class ArgMinRule(ArgMaxRule):
    """ArgMin: the ArgMax of what an HzSElementwiseAdd turns around."""

    op_types = ("ArgMin",)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        """``-(x + 1)`` is strictly decreasing on the whole range of x; ``-x`` would saturate at the least integer."""
        node = chain[0]
        x = lowering.integer(given(node, 0))
        source = given(node, 0)
        negated = ir.Value(name=f"{node.name}_negated", type=source.type, shape=source.shape)
        one = lowering.initializer(f"{node.name}_one", np.ones((1, 1, 1, 1), np.int8))
        attributes: dict[str, Any] = {"output_scale": [-1], "output_bit": x.bits, "data_format": "NHWC"}
        lowering.emit(
            "HzSElementwiseAdd",
            node,
            [x.value, one],
            {"x_shift": [0], "e_scale": [1], "e_shift": [0], "accu_right_shift": [0], "output_right_shift": [0]}
            | attributes,
            negated,
            bits=x.bits,
            scale=x.scale,
            name=f"{node.name}_negate",
        )
        emit_argmax(node, lowering.integer(negated), lowering)


def emit_argmax(node: ir.Node, x: Quantized, lowering: Lowering) -> None:
    """HzQuantizedArgMax over the channels of ``x``."""
    attributes = {"axis": 3, "output_bit": 8}
    lowering.emit("HzQuantizedArgMax", node, [x.value], attributes, node.outputs[0], bits=8, scale=UNSCALED)
