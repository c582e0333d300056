"""HzRequantize: another scale or width for an integer tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import NO_FLOAT_NODE, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.fixed_point import integer_type, round_shift, to_type
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode, factor, limits
from engine.ops.core.rows import SAME_ROWS
from engine.ops.core.schema import DATA_FORMAT, Schema
from engine.ops.dequantize import along_axis


class Requantize(QuantizedOperator):
    """``y = sat(rnd(x * output_scale, output_right_shift))``, half up."""

    op_type = "HzRequantize"
    float_types: ClassVar[tuple[str, ...]] = ()
    cost = CostKind.ADD
    rows = SAME_ROWS
    instructions = Instructions.REQUANTIZE
    attributes: ClassVar[Schema] = {
        "axis": Attribute("int", 3, "channel axis"),
        "bits": Attribute("int", 8, "8 or 16"),
        "method": Attribute("str", "Rescale", "always Rescale"),
        "output_scale": Attribute("ints", doc="multiplier, per channel"),
        "output_right_shift": Attribute("ints", doc="rounding shift, per channel"),
        "data_format": DATA_FORMAT,
    }

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x int8 or int16 (reference/arithmetic.md 1, HzRequantize)."""
        x = np.asarray(inputs[0], np.int64)
        scale = along_axis(attributes["output_scale"], x.ndim, attributes["axis"])
        shift = along_axis(attributes["output_right_shift"], x.ndim, attributes["axis"])
        return (to_type(round_shift(x * scale, shift), attributes["bits"]),)

    def error_bound(self, case: Case) -> Bound:
        return NO_FLOAT_NODE

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        x, bits = call.input(0), int(call.attributes["bits"])
        factors = factor(call.attributes["output_right_shift"], call.attributes["output_scale"])
        aligned = along_axis(factors, len(x.shape), call.attributes["axis"])
        return (emit.cast(emit.call("RequantizeRound", emit.wide(x), aligned, *limits(bits)), integer_type(bits)),)
