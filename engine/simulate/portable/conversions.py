"""Between float32 and integers, and between integer scales."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ops.core.fixed_point import integer_type
from engine.ops.dequantize import along_axis
from engine.simulate.portable.emitter import Call, Emitter, factor, limits


def quantize(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantize``: not ``QuantizeLinear``, which saturates infinities to their own side."""
    x, bits = call.input(0), int(call.attributes["bits"])
    scale = along_axis(call.constant(1).astype(np.float32), len(x.shape), call.attributes["axis"])
    bounds = (bound.astype(np.float32) for bound in limits(bits))
    return (emit.cast(emit.call("QuantizeFloat", x.value, scale, *bounds), integer_type(bits)),)


def dequantize(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzDequantize``: a float32 product."""
    x = call.input(0)
    scale = along_axis(call.constant(1).astype(np.float32), len(x.shape), call.attributes["axis"])
    return (emit.op("Mul", emit.cast(x.value, np.float32), scale),)


def requantize(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzRequantize``."""
    x, bits = call.input(0), int(call.attributes["bits"])
    factors = factor(call.attributes["output_right_shift"], call.attributes["output_scale"])
    aligned = along_axis(factors, len(x.shape), call.attributes["axis"])
    return (emit.cast(emit.call("RequantizeRound", emit.wide(x), aligned, *limits(bits)), integer_type(bits)),)
