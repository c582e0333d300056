"""HzQuantize: float32 to int8 or int16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import NO_FLOAT_NODE, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import integer_type, to_type
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, limits
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import Schema
from engine.ops.dequantize import along_axis, has_zero_point

INT32_LIMIT = np.float32(2**31)


class Quantize(QuantizedOperator):
    """``y = sat(rint(x / scale) + zero_point)``: float32 division, half to even."""

    op_type = "HzQuantize"
    float_types: ClassVar[tuple[str, ...]] = ()
    cost = CostKind.MOVE
    rows = WHOLE_MAP
    instructions = Instructions.QUANTIZE
    attributes: ClassVar[Schema] = {
        "bits": Attribute("int", 8, "8 or 16"),
        "axis": Attribute("int", 1, "channel axis of a per-channel scale"),
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x float32, scale float32 of one value or one per channel (reference/arithmetic.md 1, HzQuantize).

        Where ``x`` is calibrated without negative numbers, a third has as many zero points, int8 (one drawn network
        with ``asymmetric`` on bernoulli2).
        """
        x, scale = (np.asarray(value, np.float32) for value in inputs[:2])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.rint(x / along_axis(scale, x.ndim, attributes["axis"]))
            # What does not fit an int32 becomes INT32_MIN in the x86 conversion, also +inf and nan.
            fits = np.abs(ratio) < INT32_LIMIT
        integers = np.where(fits, ratio, -INT32_LIMIT).astype(np.int64)
        if has_zero_point(inputs):
            integers += along_axis(np.asarray(inputs[2], np.int64), x.ndim, attributes["axis"])
        return (to_type(integers, attributes["bits"]),)

    def error_bound(self, case: Case) -> Bound:
        return NO_FLOAT_NODE

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Not ``QuantizeLinear``, which saturates infinities to their own side."""
        x, bits = call.input(0), int(call.attributes["bits"])
        scale = along_axis(call.constant(1).astype(np.float32), len(x.shape), call.attributes["axis"])
        bounds = [bound.astype(np.float32) for bound in limits(bits)]
        if not has_zero_point(call.inputs):
            return (emit.cast(emit.call("QuantizeFloat", x.value, scale, *bounds), integer_type(bits)),)
        zero = along_axis(call.constant(2).astype(np.float32), len(x.shape), call.attributes["axis"])
        wide = [bound - side for bound, side in zip(bounds, (zero.max(), zero.min()), strict=True)]
        moved = emit.op("Add", emit.call("QuantizeFloat", x.value, scale, *wide), zero)
        return (emit.cast(emit.op("Clip", moved, *bounds), integer_type(bits)),)
