"""HzSpaceToDepth: pixels to channels."""

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
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.movement import MovementRule


class SpaceToDepth(QuantizedOperator):
    """Output channel ``(dy * block_width + dx) * C + c``; plain data movement."""

    op_type = "HzSpaceToDepth"
    float_types: ClassVar[tuple[str, ...]] = ("SpaceToDepth",)
    cost = CostKind.TRANSPOSE
    rows = WHOLE_MAP
    instructions = Instructions.SPACE_TO_DEPTH
    attributes: ClassVar[Schema] = {
        "block_height": Attribute("int", doc="rows that become channels"),
        "block_width": Attribute("int", doc="columns that become channels"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (reference/arithmetic.md, additional operators)."""
        x, bh, bw = np.asarray(inputs[0]), int(attributes["block_height"]), int(attributes["block_width"])
        n, h, w, c = x.shape
        blocks = x.reshape(n, h // bh, bh, w // bw, bw, c).transpose(0, 1, 3, 2, 4, 5)
        return (blocks.reshape(n, h // bh, w // bw, bh * bw * c),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        n, h, w, c = call.input(0).shape
        bh, bw = int(call.attributes["block_height"]), int(call.attributes["block_width"])
        blocks = emit.transpose(emit.reshape(call.input(0).value, [n, h // bh, bh, w // bw, bw, c]), 0, 1, 3, 2, 4, 5)
        return (emit.reshape(blocks, [n, h // bh, w // bw, bh * bw * c]),)


class SpaceToDepthRule(MovementRule):
    """SpaceToDepth."""

    op_types = ("SpaceToDepth",)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        block = attribute(node, "blocksize")
        attributes = {"block_height": block, "block_width": block, "data_format": "NHWC"}
        lowering.emit("HzSpaceToDepth", node, [x.value], attributes, node.outputs[0], bits=x.bits, scale=x.scale)
