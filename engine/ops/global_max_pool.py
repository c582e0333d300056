"""HzQuantizedGlobalMaxPool: maximum over height and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.core.base import Array, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, maximum
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class GlobalMaxPool(QuantizedOperator):
    """Maximum over a map; the scale and width are the input's."""

    op_type = "HzQuantizedGlobalMaxPool"
    float_types: ClassVar[tuple[str, ...]] = ("GlobalMaxPool",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.GLOBAL_MAX_POOL
    attributes: ClassVar[Schema] = {"data_format": DATA_FORMAT}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC; output (N, 1, 1, C) (reference/arithmetic.md, additional operators)."""
        return (np.asarray(inputs[0]).max(axis=(1, 2), keepdims=True),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        return (maximum(call.input(0), [1, 2], emit),)


class GlobalMaxPoolRule(FloatRule):
    """GlobalMaxPool; int8 only."""

    op_types = ("GlobalMaxPool",)
    passive = True
    int16_inputs = False
    int16_outputs = False

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return None if len(shape_of(given(node, 0))) == 4 else because(Code.POOLING_2D)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        attributes, result = {"data_format": "NHWC"}, node.outputs[0]
        lowering.emit("HzQuantizedGlobalMaxPool", node, [x.value], attributes, result, bits=x.bits, scale=x.scale)
