"""Functions of one activation: tables, and the rectifiers with a slope."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.ops.core.fixed_point import integer_type
from engine.simulate.portable.emitter import Call, Emitter, factor, limits

TABULATED = (np.dtype(np.int8), np.dtype(np.int16))


def table(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzLut`` and ``HzLut2Layer``: what the operator gives for every int8 or int16, looked up.

    Raises:
        UnsupportedError: the input has another type.
    """
    x = call.input(0)
    if x.dtype not in TABULATED:
        raise UnsupportedError(
            f"node {call.node.name} ({call.node.op_type}): input has type {x.dtype}; allowed: int8, int16"
        )
    lowest, highest = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    domain = np.arange(lowest, highest + 1, dtype=x.dtype)
    constants = [call.constant(index) for index in range(1, len(call.inputs))]
    (entries,) = call.operator.reference([domain, *constants], call.attributes)
    index = emit.op("Add", emit.cast(x.value, np.int32), np.int32(-lowest))
    return (emit.op("Gather", entries, index),)


def sprelu(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSPRelu``: both sides are requantised, the negative one after multiplication by its slope."""
    attributes, bits = call.attributes, int(call.attributes["output_bit"])
    x = emit.wide(call.input(0))
    above = factor(attributes["positive_right_shift"], attributes["positive_scale"])
    positive = emit.call("RequantizeRound", x, above, *limits(bits))
    product = emit.op("Mul", x, emit.wide(call.input(1)))
    below = factor(attributes["negative_right_shift"], attributes["negative_scale"])
    negative = emit.call("RescaleRound", product, factor(attributes["accu_right_shift"]), below, *limits(bits))
    return (emit.cast(_by_sign(x, positive, negative, emit), integer_type(bits)),)


def leaky(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzPRelu`` and ``HzLeakyRelu``: values that are not negative stay as they are."""
    x = emit.wide(call.input(0))
    slope = factor(call.attributes["alpha_shift"], call.attributes["alpha_scale"])
    negative = emit.call("RequantizeRound", x, slope, *limits(8))
    return (emit.cast(_by_sign(x, x, negative, emit), call.input(0).dtype),)


def _by_sign(x: ir.Value, positive: ir.Value, negative: ir.Value, emit: Emitter) -> ir.Value:
    return emit.op("Where", emit.op("Less", x, np.float64(0)), negative, positive)
