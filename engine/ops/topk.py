"""HzQuantizedTopK: the largest integers along an axis, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute, before_calibration, constant_of, shape_of
from engine.ops.core.base import Array, Attribute, Attributes, FloatRule, Lowering, QuantizedOperator, Tie
from engine.ops.core.bounds import Bound, Case, Unbounded
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given, required
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.reasons import Code, Reason, because
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import Schema

if TYPE_CHECKING:
    from engine.chips import Chip

MAX_LENGTH = 32768
"""Longer axes were not asked; positions are int32."""


class TopK(QuantizedOperator):
    """The ``k`` largest (or smallest) of an axis in order; of equal ones the first comes first, as in ONNX.

    Attributes, types and the layout, ONNX's own, are those of the original's (three networks, along the last axis).
    """

    op_type = "HzQuantizedTopK"
    float_types: ClassVar[tuple[str, ...]] = ("TopK",)
    cost = CostKind.REDUCE
    rows = WHOLE_MAP
    instructions = Instructions.NONE
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", -1, "axis that is searched"),
        "k": Attribute("int", doc="how many are kept"),
        "largest": Attribute("int", 1, "1: the largest, 0: the smallest"),
        "sorted": Attribute("int", 1, "a record: the result is always in order"),
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16. Outputs: values of the type of x; positions int32."""
        x, axis = np.asarray(inputs[0]), attributes["axis"]
        order = x.astype(np.int64) * (-1 if attributes["largest"] else 1)
        positions = np.argsort(order, axis=axis, kind="stable").take(range(attributes["k"]), axis=axis)
        return np.take_along_axis(x, positions, axis=axis), positions.astype(np.int32)

    def error_bound(self, case: Case) -> Bound:
        return Unbounded("equal integers may stand for different floats, so that other values are chosen")

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Values in the type of the input, positions int32."""
        x, attributes = call.input(0), call.attributes
        axis, largest = int(attributes["axis"]), int(attributes["largest"])
        count = np.array([attributes["k"]], np.int64)
        values, positions = emit.ops("TopK", 2, emit.cast(x.value, np.float32), count, axis=axis, largest=largest)
        return emit.cast(values, x.dtype), emit.cast(positions, np.int32)


class TopKRule(FloatRule):
    """TopK of a constant number of values along any axis; a Cast of the positions follows on the CPU."""

    op_types = ("TopK",)
    passive = True
    """It chooses among values: at the end, behind floats of the CPU and in front of calibrations (42 of 42 asked)."""
    index_outputs = (1,)

    def tie(self, node: ir.Node) -> Tie:
        return Tie.OUTPUT_TAKES_INPUT

    def refusal(self, node: ir.Node, march: Chip) -> Reason | None:
        shape = shape_of(given(node, 0))
        if not 2 <= len(shape) <= 4:
            return because(Code.RANK_2_TO_4, done="searched")
        axis = attribute(node, "axis", -1) % len(shape)
        if axis == 0:
            return because(Code.BATCH_SEARCHED)
        if constant_of(before_calibration(given(node, 1))) is None:
            return because(Code.COUNT_NOT_CONSTANT)
        if shape[axis] > MAX_LENGTH:
            return because(Code.SEARCHED_VALUES, length=shape[axis], limit=MAX_LENGTH)
        return None

    def layout(self, node: ir.Node) -> str:
        return "NCHW"

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0), layout=self.layout(node))
        attributes = {
            "axis": attribute(node, "axis", -1) % len(shape_of(given(node, 0))),
            "k": int(required(lowering.constant(given(node, 1))).item()),
            "largest": attribute(node, "largest", 1),
            "sorted": attribute(node, "sorted", 1),
        }
        values, positions = node.outputs
        widths = [x.bits, 32]
        lowering.emit(
            "HzQuantizedTopK",
            node,
            [x.value],
            attributes,
            values,
            positions,
            bits=widths,
            scale=x.scale,
            layout="NCHW",
        )
