"""HzDepthToSpace: channels to pixels."""

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


class DepthToSpace(QuantizedOperator):
    """ONNX DepthToSpace in NHWC; plain data movement."""

    op_type = "HzDepthToSpace"
    float_types: ClassVar[tuple[str, ...]] = ("DepthToSpace",)
    cost = CostKind.TRANSPOSE
    rows = WHOLE_MAP
    instructions = Instructions.DEPTH_TO_SPACE
    attributes: ClassVar[Schema] = {
        "blocksize": Attribute("int", doc="side of the block that a pixel becomes"),
        "mode": Attribute("str", "DCR", "DCR or CRD, as in ONNX"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 NHWC (reference/arithmetic.md 1)."""
        x, b = np.asarray(inputs[0]), int(attributes["blocksize"])
        n, h, w, c = x.shape
        if attributes["mode"] == "CRD":
            blocks = x.reshape(n, h, w, c // (b * b), b, b).transpose(0, 1, 4, 2, 5, 3)
        else:
            blocks = x.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
        return (blocks.reshape(n, h * b, w * b, c // (b * b)),)

    def error_bound(self, case: Case) -> Bound:
        return exact(case)

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        n, h, w, c = call.input(0).shape
        b, x = int(call.attributes["blocksize"]), call.input(0).value
        if call.attributes["mode"] == "CRD":
            blocks = emit.transpose(emit.reshape(x, [n, h, w, c // (b * b), b, b]), 0, 1, 4, 2, 5, 3)
        else:
            blocks = emit.transpose(emit.reshape(x, [n, h, w, b, b, c // (b * b)]), 0, 1, 3, 2, 4, 5)
        return (emit.reshape(blocks, [n, h * b, w * b, c // (b * b)]),)


class DepthToSpaceRule(MovementRule):
    """DepthToSpace, both modes."""

    op_types = ("DepthToSpace",)

    def lower(self, chain: Sequence[ir.Node], lowering: Lowering) -> None:
        node = chain[0]
        x = lowering.integer(given(node, 0))
        attributes = {
            "blocksize": attribute(node, "blocksize"),
            "mode": attribute(node, "mode", "DCR"),
            "data_format": "NHWC",
        }
        lowering.emit("HzDepthToSpace", node, [x.value], attributes, node.outputs[0], bits=x.bits, scale=x.scale)
