"""Windows over maps, and reductions along axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.ops.average_pool import reciprocal
from engine.ops.core.base import Attributes
from engine.ops.core.fixed_point import integer_type
from engine.ops.core.windows import geometry
from engine.simulate.portable.convolution import TO_NCHW, TO_NHWC
from engine.simulate.portable.emitter import Call, Emitter, Operand, Term, factor, limits

WRAPPED_INDEX = 128
"""First index that int8 cannot hold."""


def max_pool(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedMaxPool``: padded with the type's lowest value, so that a window of padding only gives that."""
    x, attributes = call.input(0), call.attributes
    padded = _padded(x, attributes, float(np.iinfo(x.dtype).min), emit)
    window = {name: [int(v) for v in attributes[name]] for name in ("kernel_shape", "strides", "dilations")}
    return (_nhwc(emit.op("MaxPool", padded, **window), x.dtype, emit),)


def average_pool(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedAveragePool``: the window's sum as a depthwise convolution, times a truncated reciprocal."""
    x, attributes = call.input(0), call.attributes
    channels, kernel = x.shape[3], [int(size) for size in attributes["kernel_shape"]]
    padded = _padded(x, attributes, 0.0, emit)
    ones = np.ones((channels, 1, *kernel), np.float32)
    strides = [int(stride) for stride in attributes["strides"]]
    total = emit.cast(emit.op("Conv", padded, ones, group=channels, kernel_shape=kernel, strides=strides), np.float64)
    fraction_bits, multiplier = reciprocal(attributes)
    product = emit.call("WrapInt32", emit.op("Mul", total, np.float64(multiplier)))
    average = emit.op("Clip", emit.call("ShiftFloor", product, factor(fraction_bits)), *limits(8))
    return (_nhwc(average, np.dtype(np.int8), emit),)


def global_average_pool(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSQuantizedGlobalAveragePool``: both shifts round half up."""
    attributes, bits = call.attributes, int(call.attributes["output_bit"])
    total = emit.op("ReduceSum", emit.wide(call.input(0)), np.array([1, 2]), keepdims=1)
    if bits == 32:
        return (emit.cast(emit.call("WrapInt32", total), np.int32),)
    narrowed = emit.call("Saturate16", emit.call("ShiftRound", total, factor(attributes["accu_right_shift"])))
    factors = factor(attributes["output_right_shift"], attributes["output_scale"])
    return (emit.cast(emit.call("RequantizeRound", narrowed, factors, *limits(bits)), integer_type(bits)),)


def reduce_sum(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzSQuantizedReduceSum`` and ``HzSQuantizedReduceMean``: element [0] of the lists is used for everything."""
    attributes, bits = call.attributes, int(call.attributes["output_bit"])
    total = emit.op("ReduceSum", emit.wide(call.input(0)), np.array([attributes["axis"]]), keepdims=1)
    if bits == 32:
        return (emit.cast(emit.call("WrapInt32", total), np.int32),)
    narrowing = factor(attributes["accu_right_shift"][0])
    factors = factor(attributes["out_shift"][0], attributes["scale"][0])
    return (emit.cast(emit.call("RescaleRound", total, narrowing, factors, *limits(bits)), integer_type(bits)),)


def reduce_max(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedReduceMax``."""
    return (_maximum(call.input(0), [int(call.attributes["axis"])], emit),)


def global_max_pool(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedGlobalMaxPool``."""
    return (_maximum(call.input(0), [1, 2], emit),)


def arg_max(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedArgMax``: the index wraps in int8."""
    x, axis = call.input(0), int(call.attributes["axis"])
    keepdims = int(bool(call.attributes["keepdims"]))
    index = emit.op("ArgMax", emit.cast(x.value, np.float32), axis=axis, keepdims=keepdims)
    if x.shape[axis] > WRAPPED_INDEX:
        raised = emit.op("Mod", emit.op("Add", index, np.int64(128)), np.int64(256))
        index = emit.op("Sub", raised, np.int64(128))
    return (emit.cast(index, np.int8),)


def top_k(call: Call, emit: Emitter) -> tuple[ir.Value, ...]:
    """``HzQuantizedTopK``: values in the type of the input, positions int16."""
    x, attributes = call.input(0), call.attributes
    axis, largest = int(attributes["axis"]), int(attributes["largest"])
    count = np.array([attributes["k"]], np.int64)
    values, positions = emit.ops("TopK", 2, emit.cast(x.value, np.float32), count, axis=axis, largest=largest)
    return emit.cast(values, x.dtype), emit.cast(positions, np.int16)


def _maximum(x: Operand, axes: list[int], emit: Emitter) -> ir.Value:
    largest = emit.op("ReduceMax", emit.cast(x.value, np.float32), np.array(axes), keepdims=1)
    return emit.cast(largest, x.dtype)


def _padded(x: Operand, attributes: Attributes, value: float, emit: Emitter) -> ir.Value:
    """``x`` in float32 NCHW, padded, or cut at its end, to just what the windows see."""
    planes = emit.cast(emit.transpose(x.value, *TO_NCHW), np.float32)
    windows, size = geometry(x.shape[1:3], attributes), np.array(x.shape[1:3])
    before = windows.pads[:2]
    after = (windows.out - 1) * attributes["strides"] + windows.extent - size - before
    if not before.any() and not after.any():
        return planes
    return emit.op("Pad", planes, np.array([0, 0, *before, 0, 0, *after], np.int64), np.float32(value))


def _nhwc(planes: Term, dtype: np.dtype[np.generic], emit: Emitter) -> ir.Value:
    return emit.transpose(emit.cast(planes, dtype), *TO_NHWC)
