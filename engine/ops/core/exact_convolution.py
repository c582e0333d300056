"""Convolutions in standard ONNX: exact sums of products in float32, requantised in float64.

A float32 convolution of integers is exact, in any order of summation, while no partial sum leaves +-2**24. Where a
layer's weights are too large for that, its input channels are split over several convolutions; int16 activations are
split into bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import UnsupportedError
from engine.ops.core.fixed_point import integer_type, wrap_int32
from engine.ops.core.portable import (
    FLOAT32_EXACT,
    FLOAT64_SAFE,
    INT32_LIMIT,
    TO_NCHW,
    Emitter,
    SourceNode,
    SourceTensor,
    factor,
    in_nhwc,
    limits,
)

Array = NDArray[Any]
Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Summand:
    """One summand of the accumulator, float64 NCHW, and the largest magnitude it can have."""

    value: ir.Value | Array
    magnitude: float


@dataclass(frozen=True)
class IntegerPart:
    """Integers that a tensor is split into: it is the sum of ``weight * value`` over its parts.

    Attributes:
        value: float32 NCHW.
        magnitude: largest absolute value in it.
        weight: 1, or 256 for the upper bytes of 16-bit integers.
    """

    value: ir.Value
    magnitude: int
    weight: int = 1


def convolved(
    op_type: str,
    call: SourceNode,
    weights: Array,
    channel_sums: NDArray[np.int64],
    attributes: Attributes,
    emit: Emitter,
) -> Summand:
    """The sum of products in exact float32 parts.

    Args:
        op_type: ``Conv`` or ``ConvTranspose``.
        call: the quantised node.
        weights: integers, as the quantised node has them.
        channel_sums: shape (output channels, input channels per group): sum of ``|w|`` that one input channel adds to
            one output channel.
        attributes: of the node.
        emit: appends ONNX nodes.

    Raises:
        UnsupportedError: sums of products leave what float32 holds exactly, or there are no input channels.
    """
    x, group = call.input(0), int(attributes["group"])
    geometry = {
        name: [int(v) for v in attributes[name]]
        for name in ("kernel_shape", "pads", "strides", "dilations")
        if name in attributes
    }
    total: ir.Value | None = None
    for part in _parts(x, emit):
        for channels in _exact_chunks(channel_sums, part.magnitude, call):
            inputs, kernel = _select_channels(part.value, weights, channels, group, op_type, emit)
            # Stored as int8, a quarter of the size; ONNX Runtime folds the cast when it loads the file.
            products = emit.op(op_type, inputs, emit.cast(kernel, np.float32), group=group, **geometry)
            result = emit.cast(products, np.float64)
            if part.weight != 1:
                result = emit.op("Mul", result, np.float64(part.weight))
            total = result if total is None else emit.op("Add", total, result)
    if total is None:
        raise UnsupportedError(f"node {call.node.name} ({call.node.op_type}): a convolution without input channels")
    return Summand(total, float(x.magnitude * channel_sums.sum(axis=1).max(initial=0)))


def _parts(x: SourceTensor, emit: Emitter) -> list[IntegerPart]:
    """``x`` in float32 NCHW: as it is, or split into signed upper and unsigned lower bytes."""
    value = emit.cast(emit.transpose(x.value, *TO_NCHW), np.float32)
    if x.dtype == np.int8:
        return [IntegerPart(value, 128)]
    upper = emit.op("Floor", emit.op("Mul", value, np.float32(1 / 256)))
    lower = emit.op("Sub", value, emit.op("Mul", upper, np.float32(256)))
    return [IntegerPart(upper, 128, weight=256), IntegerPart(lower, 255)]


def _exact_chunks(channel_sums: NDArray[np.int64], magnitude: int, call: SourceNode) -> Iterator[range]:
    """Ranges of input channels, each as long as its sums of products stay exact in float32.

    Raises:
        UnsupportedError: a single channel does not.
    """
    room = FLOAT32_EXACT // magnitude
    start, used = 0, np.zeros(len(channel_sums), np.int64)
    for channel, column in enumerate(channel_sums.T):
        if column.max(initial=0) > room:
            raise UnsupportedError(
                f"node {call.node.name} ({call.node.op_type}): a kernel of {column.max()} summed absolute weights in"
                f" one channel is too large to be exported; at most {room}"
            )
        if (used + column).max(initial=0) > room:
            yield range(start, channel)
            start, used = channel, np.zeros_like(used)
        used = used + column
    yield range(start, channel_sums.shape[1])


def _select_channels(
    x: ir.Value, weights: Array, channels: range, group: int, op_type: str, emit: Emitter
) -> tuple[ir.Value, Array]:
    """Input channels ``channels`` of every group of ``x``, and their weights."""
    axis = 1 if op_type == "Conv" else 0
    per_group = weights.shape[1] if op_type == "Conv" else weights.shape[0] // group
    if len(channels) == per_group:
        return x, weights
    in_group = np.asarray(channels, np.int64)
    everywhere = (np.arange(group)[:, None] * per_group + in_group).ravel()
    kept = np.take(weights, in_group if op_type == "Conv" else everywhere, axis=axis)
    return emit.op("Gather", x, everywhere, axis=1), kept


def input_channel_sums(weights: Array) -> NDArray[np.int64]:
    """Sum of ``|w|`` over the taps of ``weights`` (O, kh, kw, I/g): (O, I/g)."""
    return np.asarray(np.abs(weights.astype(np.int64)).sum(axis=(1, 2)))


def bias_summand(bias: NDArray[np.int64]) -> Summand:
    """The bias modulo 2**32, which is all that an int32 accumulator sees of it."""
    wrapped = wrap_int32(bias)
    return Summand(_per_channel(wrapped.astype(np.float64)), float(np.abs(wrapped).max(initial=0)))


def residual_summand(e: SourceTensor, attributes: Attributes, emit: Emitter) -> Summand:
    """The fused residual: ``(e * e_scale) << e_shift``, a negative shift floors."""
    factors = factor(-attributes["e_shift"], attributes["e_scale"])
    value = emit.cast(emit.transpose(e.value, *TO_NCHW), np.float64)
    term = emit.call("ShiftFloor", value, _per_channel(factors))
    magnitude = float(e.magnitude * np.abs(factors).max(initial=0) + 1)
    if magnitude < FLOAT64_SAFE:
        return Summand(term, magnitude)
    return Summand(emit.call("WrapInt32", term), float(INT32_LIMIT))


def accumulated(terms: list[Summand], emit: Emitter) -> ir.Value:
    """The int32 accumulator in float64: the sum, wrapped where it could leave its range."""
    total = terms[0].value
    for term in terms[1:]:
        total = emit.op("Add", total, term.value)
    if not isinstance(total, ir.Value) or sum(term.magnitude for term in terms) >= INT32_LIMIT:
        return emit.call("WrapInt32", total)
    return total


def requantized(accumulator: ir.Value, attributes: Attributes, emit: Emitter) -> ir.Value:
    """The output, NHWC: both shifts floor, the rounding constant is part of the bias."""
    low = 0 if attributes["activation"] == "relu" else None
    bits = int(attributes["output_bit"])
    if attributes["high_precision_output"] or bits == 32:
        bits = 32
        result = accumulator if low is None else emit.op("Max", accumulator, np.float64(low))
    else:
        narrowing = _per_channel(factor(attributes["right_shift"]))
        factors = _per_channel(factor(attributes["out_shift"], attributes["scale"]))
        result = emit.call("RescaleFloor", accumulator, narrowing, factors, *limits(bits, low))
    return in_nhwc(result, integer_type(bits), emit)


def _per_channel(values: Array) -> Array:
    """One value per channel, to broadcast over NCHW."""
    return values.reshape(()) if values.size == 1 else values.reshape(-1, 1, 1)


def one_channel_per_group(
    inputs: Sequence[Array | None], channels: int, *, transposed: bool = False
) -> list[Array | None]:
    """Inputs of a convolution of ``channels`` groups whose output has the same shape and takes far less time."""
    x, weights, *rest = inputs
    if x is None or weights is None:
        return list(inputs)
    return [x[..., :channels], weights[:channels] if transposed else weights[..., :1], *rest]
