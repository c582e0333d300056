"""HzMadeUp: the negative of an activation. No BPU has it; a test puts this file among the operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.chips import Chip
from engine.ir import shape_of
from engine.ops.core.base import Array, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import to_type
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, limits
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, Schema


class MadeUp(QuantizedOperator):
    """``sat(-x)``; the scale and width are the input's."""

    op_type = "HzMadeUp"
    float_types = ("Neg",)
    cost = CostKind.LUT
    rows = SAME_ROWS
    instructions = Instructions.TABLE
    attributes: ClassVar[Schema] = {"output_bit": OUTPUT_BIT, "data_format": DATA_FORMAT}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        return (to_type(-np.asarray(inputs[0], np.int64), attributes["output_bit"]),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        x = call.input(0)
        return (
            emit.cast(emit.op("Clip", emit.op("Neg", emit.wide(x)), *limits(call.attributes["output_bit"])), x.dtype),
        )


class MadeUpRule(FloatRule):
    """Neg of one activation."""

    op_types = ("Neg",)

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return None if len(shape_of(given(node, 0))) == 4 else because(Code.RANK_4, done="negated")

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        attributes = {"output_bit": x.bits, "data_format": "NHWC"}
        lowering.emit("HzMadeUp", node, [x.value], attributes, node.outputs[0], bits=x.bits, scale=x.scale)
