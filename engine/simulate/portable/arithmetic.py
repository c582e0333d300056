"""Sums and products of two activations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.ops.comparison import COMPARISONS
from engine.ops.core.base import Attributes
from engine.ops.core.fixed_point import integer_type
from engine.simulate.portable.convolution import FLOAT32_EXACT, INT32_LIMIT
from engine.simulate.portable.emitter import Call, Emitter, factor, floors, limits


def add(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSElementwiseAdd``."""
    x, e = _scaled_operands(call, emit)
    return (_requantized(emit.op("Add", x, e), call.attributes, emit),)


def sub(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSElementwiseSub``; it has no ``e_shift``."""
    x, e = _scaled_operands(call, emit)
    return (_requantized(emit.op("Sub", x, e), call.attributes, emit),)


def mul(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSElementwiseMul``."""
    attributes = call.attributes
    product = emit.op("Mul", emit.wide(call.input(0)), emit.wide(call.input(1)))
    if not attributes["add_rounding_bias"]:
        return (_requantized(product, attributes, emit),)
    shifts = attributes["accu_right_shift"] + attributes["output_right_shift"]
    half = np.rint(np.exp2(shifts) / (2.0 * attributes["output_scale"]))
    return (_requantized(emit.op("Add", product, half), {**attributes, "rounding_method": "FLOOR"}, emit),)


def compare(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedComparison``; in float32, for int8 has no kernel."""
    name = str(call.attributes["comparison"])
    if name not in COMPARISONS:
        raise UnsupportedError(f"node {call.node.name}: comparison is {name!r}; allowed: {', '.join(COMPARISONS)}")
    operands = [emit.cast(call.input(index).value, np.float32) for index in (0, 1)]
    return (emit.cast(emit.op(name, *operands), np.int8),)


def matmul(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSQuantizedMatmul``: in float32 where no sum can leave +-2**24, else in float64."""
    a, b, attributes = call.input(0), call.input(1), call.attributes
    largest = a.magnitude * b.magnitude * a.shape[-1]
    carrier = np.float32 if largest <= FLOAT32_EXACT else np.float64
    product = emit.op("MatMul", emit.cast(a.value, carrier), emit.cast(b.value, carrier))
    accumulator = emit.cast(product, np.float64)
    if largest >= INT32_LIMIT:
        accumulator = emit.call("WrapInt32", accumulator)
    if attributes["high_precision_output"] or attributes["output_bit"] == 32:
        return (emit.cast(accumulator, np.int32),)
    names = {"right_shift": "accu_right_shift", "scale": "output_scale", "out_shift": "output_right_shift"}
    renamed = {names.get(name, name): value for name, value in attributes.items()}
    return (_requantized(accumulator, renamed, emit),)


def _scaled_operands(call: Call, emit: Emitter) -> tuple[ir.Value, ir.Value]:
    """``x << x_shift`` and ``(e * e_scale) << e_shift``."""
    attributes = call.attributes
    e_shift = attributes.get("e_shift", np.zeros(1, np.int64))
    x = emit.call("ShiftFloor", emit.wide(call.input(0)), factor(-attributes["x_shift"]))
    e = emit.call("ShiftFloor", emit.wide(call.input(1)), factor(-e_shift, attributes["e_scale"]))
    return x, e


def _requantized(value: ir.Value, attributes: Attributes, emit: Emitter) -> ir.Value:
    """``sat(rnd(sat16(value >> accu_right_shift) * output_scale, output_right_shift))``."""
    bits = int(attributes["output_bit"])
    narrowing = factor(attributes["accu_right_shift"])
    factors = factor(attributes["output_right_shift"], attributes["output_scale"])
    function = "RescaleFloor" if floors(attributes) else "RescaleRound"
    return emit.cast(emit.call(function, value, narrowing, factors, *limits(bits)), integer_type(bits))
