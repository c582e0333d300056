"""HzDequantize: integers to float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from engine.ops.core.base import Array, Attribute, Attributes, QuantizedOperator
from engine.ops.core.bounds import NO_FLOAT_NODE, Bound, Case
from engine.ops.core.costs import CostKind
from engine.ops.core.instructions import Instructions
from engine.ops.core.portable import Emitter, SourceNode
from engine.ops.core.rows import WHOLE_MAP
from engine.ops.core.schema import Schema


class Dequantize(QuantizedOperator):
    """``y = float32(x - zero_point) * scale``, a float32 product."""

    op_type = "HzDequantize"
    float_types: ClassVar[tuple[str, ...]] = ()
    cost = CostKind.MOVE
    rows = WHOLE_MAP
    instructions = Instructions.DEQUANTIZE
    attributes: ClassVar[Schema] = {"axis": Attribute("int", 1, "channel axis of a per-channel scale")}

    def reference(self, inputs: Sequence[Array | None], attributes: Attributes) -> tuple[Array, ...]:
        """Inputs: x integers, scale float32 of one value or one per channel.

        What is calibrated without negative numbers has as many zero points, int8, as a third input (what a convolution
        on the CPU reads with ``asymmetric``, on bayes-e and bernoulli2). Source: reference/arithmetic.md 1,
        HzDequantize.
        """
        x, scale = (np.asarray(value) for value in inputs[:2])
        if has_zero_point(inputs):
            x = x.astype(np.int32) - along_axis(np.asarray(inputs[2], np.int32), x.ndim, attributes["axis"])
        return (x.astype(np.float32) * along_axis(scale.astype(np.float32), x.ndim, attributes["axis"]),)

    def error_bound(self, case: Case) -> Bound:
        return NO_FLOAT_NODE

    def portable(self, call: SourceNode, emit: Emitter) -> tuple[ir.Value, ...]:
        """A float32 product."""
        x = call.input(0)
        scale = along_axis(call.constant(1).astype(np.float32), len(x.shape), call.attributes["axis"])
        values = emit.cast(x.value, np.float32)
        if has_zero_point(call.inputs):
            zero = along_axis(call.constant(2).astype(np.float32), len(x.shape), call.attributes["axis"])
            values = emit.op("Sub", values, zero)
        return (emit.op("Mul", values, scale),)


def has_zero_point(inputs: Sequence[object]) -> bool:
    """Whether a conversion between floats and integers has a third input."""
    return len(inputs) > 2 and inputs[2] is not None


def along_axis(values: Array, rank: int, axis: int) -> Array:
    """Shape ``values`` (n,) to broadcast along ``axis`` of a tensor of ``rank``; one value becomes a scalar."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)
