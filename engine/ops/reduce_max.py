"""HzQuantizedReduceMax: maximum over one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given, nhwc_axis, reduced_axis, refused_reduction
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, maximum
from engine.ops.core.reasons import Reason
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, OUTPUT_BIT, Schema

if TYPE_CHECKING:
    from engine.chips import Chip


class ReduceMax(QuantizedOperator):
    """Maximum over one axis, which stays with length 1; the scale and width are the input's."""

    op_type = "HzQuantizedReduceMax"
    float_types: ClassVar[tuple[str, ...]] = ("ReduceMax",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.MAXIMUM_OF_AXIS
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", doc="axis that is reduced"),
        "output_bit": OUTPUT_BIT,
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (reference/arithmetic.md 1, HzQuantizedReduceMax)."""
        return (np.asarray(inputs[0]).max(axis=attributes["axis"], keepdims=True),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        return (maximum(call.input(0), [int(call.attributes["axis"])], emit),)


class ReduceMaxRule(FloatRule):
    """ReduceMax over one axis."""

    op_types = ("ReduceMax",)

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def late_refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        return refused_reduction(node, march)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        axis = nhwc_axis(reduced_axis(node), len(shape_of(given(node, 0))))
        attributes = {"axis": axis, "output_bit": x.bits}
        lowering.emit("HzQuantizedReduceMax", node, [x.value], attributes, node.outputs[0], bits=x.bits, scale=x.scale)
