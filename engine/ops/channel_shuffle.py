"""HzChannelShuffle: interleaves groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.ir import attribute
from engine.ops.core.base import Array, Attribute, Attributes, Lowering, QuantizedOperator
from engine.ops.core.bounds import Bound, Case, exact
from engine.ops.core.costs import CostKind
from engine.ops.core.float_nodes import given
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.movement import MovementRule


class ChannelShuffle(QuantizedOperator):
    """Channels as (group, C / group), transposed; plain data movement."""

    op_type = "HzChannelShuffle"
    float_types: ClassVar[tuple[str, ...]] = ("HzChannelShuffle",)
    cost = CostKind.TRANSPOSE
    rows = SAME_ROWS
    instructions = Instructions.CHANNEL_SHUFFLE
    attributes: ClassVar[Schema] = {"group": Attribute("int", doc="number of groups"), "data_format": DATA_FORMAT}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (reference/arithmetic.md, additional operators)."""
        x, group = np.asarray(inputs[0]), int(attributes["group"])
        shuffled = x.reshape(*x.shape[:3], group, -1).swapaxes(3, 4)
        return (shuffled.reshape(x.shape),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        shape, group = call.input(0).shape, int(call.attributes["group"])
        grouped = emit.reshape(call.input(0).value, [*shape[:3], group, shape[3] // group])
        return (emit.reshape(emit.transpose(grouped, 0, 1, 2, 4, 3), shape),)


class ChannelShuffleRule(MovementRule):
    """The shuffle that the optimiser finds in Reshape, Transpose, Reshape."""

    op_types = ("HzChannelShuffle",)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        attributes = {"group": attribute(node, "group"), "data_format": "NHWC"}
        lowering.emit("HzChannelShuffle", node, [x.value], attributes, node.outputs[0], bits=x.bits, scale=x.scale)
