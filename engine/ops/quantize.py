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
from engine.ops.dequantize import along_axis

INT32_LIMIT = np.float32(2**31)


class Quantize(QuantizedOperator):
    """``y = sat(rint(x / scale))``: float32 division, half to even."""

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
        """Inputs: x float32, scale float32 of one value or one per channel (reference/arithmetic.md 1, HzQuantize)."""
        x, scale = (np.asarray(value, np.float32) for value in inputs)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.rint(x / along_axis(scale, x.ndim, attributes["axis"]))
            # What does not fit an int32 becomes INT32_MIN in the x86 conversion, also +inf and nan.
            fits = np.abs(ratio) < INT32_LIMIT
        integers = np.where(fits, ratio, -INT32_LIMIT).astype(np.int64)
        return (to_type(integers, attributes["bits"]),)

    def error_bound(self, case: Case) -> Bound:
        return NO_FLOAT_NODE

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """Not ``QuantizeLinear``, which saturates infinities to their own side."""
        x, bits = call.input(0), int(call.attributes["bits"])
        scale = along_axis(call.constant(1).astype(np.float32), len(x.shape), call.attributes["axis"])
        bounds = (bound.astype(np.float32) for bound in limits(bits))
        return (emit.cast(emit.call("QuantizeFloat", x.value, scale, *bounds), integer_type(bits)),)
