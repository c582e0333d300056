"""Nodes of float passes whose sums and roundings ONNX Runtime has otherwise than the original.

Thresholds are maxima of what these nodes give, and deep networks amplify one different last bit; on bernoulli2, where
attention runs in float, even to steps of the result. docs/evidence/calibration.md says which recorded conversions each
order of operations brings to the original's bits. ONNX Runtime computes everything else.

* ``HzPreprocess``: the channels' products one after the other, then the bias, without fused multiply-add.
* ``HzSwish``: ``x * (1 / (1 + exp(-x)))`` with the C library's ``expf``.
* ``HzRsqrt``: the sum in float32, root and quotient in float64.
* ``HzGelu``: in float64, rounded once.
* ``Sqrt``: in fours, a step of Newton's from the CPU's estimate of the reciprocal root.
* ``ReduceMean`` over one axis that is not the last: in fours.
* ``Tanh``: ONNX Runtime's own, which passes 1 by up to 2e-7 from 7.9 on; 8 of 8 such thresholds are 1. On
  bernoulli2 a sum with 1 behind it is computed in float, where half of all values would be rounded otherwise.
* ``Softmax``: as :mod:`engine.floats.softmax.definition` has it, with the bits of the original's own runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.floats.compiled import ELEMENTWISE_BLOCK, GELU, MEAN_OF_MIDDLE, ROOT, RSQRT, SOFTMAX_ROWS, SWISH
from engine.floats.rational import LIMIT, TANH_ABOVE, TANH_BELOW
from engine.ir import HORIZON_DOMAIN, attribute, constant_of, static_shape
from engine.native.loops import Loop
from engine.ops.foreign.composite import PREPROCESS
from engine.ops.softmax import normalised_axes

Array = NDArray[Any]
Compute = Callable[[Array, Array], None]
"""Computes the first argument, float32, into the second."""

_CHANNELS_FIRST = (0, 3, 1, 2)


def has_own_arithmetic(node: ir.Node) -> bool:
    """Whether :func:`computed` is to compute ``node``.

    What has operands that are computed, or is not over the axes that a mean and a Softmax are measured on, is ONNX
    Runtime's.
    """
    if _kind(node) not in OWN_ARITHMETIC:
        return False
    match node.op_type:
        case "HzPreprocess":
            return all(constant_of(value) is not None for value in node.inputs[1:3])
        case "ReduceMean":
            return _middle_of(node) is not None
        case "Softmax":
            return _length_of_rows(node) is not None
        case "Sqrt" | "Tanh":  # that of a composite has no shape
            return node.outputs[0].dtype == ir.DataType.FLOAT and static_shape(node.outputs[0]) is not None
    return True


def _kind(node: ir.Node) -> tuple[str, str]:
    """Domain and type; the standard domain has two names."""
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def computed(node: ir.Node) -> Compute:
    """What computes ``node``."""
    return OWN_ARITHMETIC[_kind(node)](node)


def _elementwise(loop: Loop) -> Callable[[ir.Node], Compute]:
    """What computes a node by a loop over blocks of numbers."""

    def compute(source: Array, result: Array) -> None:
        loop(np.ascontiguousarray(source).reshape(-1), np.empty(ELEMENTWISE_BLOCK, np.int64), result.reshape(-1))

    return lambda node: compute


def _preprocess(node: ir.Node) -> Compute:
    weight, bias = (constant_of(value) for value in node.inputs[1:3])
    if weight is None or bias is None:
        raise ModelError(f"node {node.name!r}: {PREPROCESS} needs constant weights and biases")
    group, nhwc = attribute(node, "channel_group", 1), attribute(node, "data_format", "NCHW") == "NHWC"
    factors = np.asarray(weight, np.float32).reshape(len(weight), -1)
    bias = np.asarray(bias, np.float32).reshape(-1)

    def compute(source: Array, result: Array) -> None:
        maps, out = (source.transpose(_CHANNELS_FIRST), result.transpose(_CHANNELS_FIRST)) if nhwc else (source, result)
        for channel, (row, shift) in enumerate(zip(factors, bias, strict=True)):
            first = channel // (len(factors) // group) * factors.shape[1]
            total = maps[:, first] * row[0]
            for offset, factor in enumerate(row[1:], 1):
                total += maps[:, first + offset] * factor
            out[:, channel] = total + shift

    return compute


def _rsqrt(node: ir.Node) -> Compute:
    epsilon = np.float32(attribute(node, "epsilon", 0.0))

    def compute(source: Array, result: Array) -> None:
        RSQRT(np.ascontiguousarray(source).reshape(-1), epsilon, result.reshape(-1))

    return compute


def _root(node: ir.Node) -> Compute:
    def compute(source: Array, result: Array) -> None:
        ROOT(np.ascontiguousarray(source).reshape(-1), result.reshape(-1))

    return compute


_TANH_BLOCK = 1 << 14


def _tanh(node: ir.Node) -> Compute:
    """Quotient of two polynomials, products and sums rounded together; of magnitude 1 at most."""

    def polynomial(square: Array, factors: Sequence[np.float32]) -> Array:
        wide = square.astype(np.float64)  # holds every product
        total = np.full_like(square, factors[0])
        for factor in map(np.float64, factors[1:]):
            total = (total * wide + factor).astype(np.float32)
        return total

    def compute(source: Array, result: Array) -> None:
        numbers, out = np.ascontiguousarray(source).reshape(-1), result.reshape(-1)
        for start in range(0, len(numbers), _TANH_BLOCK):  # what is in between stays in the cache
            x = np.clip(numbers[start : start + _TANH_BLOCK], -LIMIT, LIMIT)
            square = x * x
            above = polynomial(square, TANH_ABOVE) * x
            out[start : start + _TANH_BLOCK] = np.clip(above / polynomial(square, TANH_BELOW), -1, 1)

    return compute


def _mean(node: ir.Node) -> Compute:
    middle = _middle_of(node)
    if middle is None:
        raise ModelError(f"node {node.name!r}: only a mean over one axis that is not the last is computed here")

    def compute(source: Array, result: Array) -> None:
        MEAN_OF_MIDDLE(np.ascontiguousarray(source).reshape(middle), result.reshape(middle[0], middle[2]))

    return compute


def _softmax(node: ir.Node) -> Compute:
    length = _length_of_rows(node)
    if length is None:
        raise ModelError(f"node {node.name!r}: only a Softmax over the last axes is computed here")

    def compute(source: Array, result: Array) -> None:
        SOFTMAX_ROWS(np.ascontiguousarray(source).reshape(-1, length), result.reshape(-1, length))

    return compute


def _middle_of(node: ir.Node) -> tuple[int, int, int] | None:
    """The shape that a mean reads, its axis in the middle; ``None`` where it is the last or there are several."""
    source = node.inputs[0]
    shape = None if source is None else _shape_of_floats(source)
    given = attribute(node, "axes")
    if given is None and len(node.inputs) > 1:
        array = constant_of(node.inputs[1])
        given = None if array is None else array.tolist()
    if shape is None or given is None or len(given) != 1 or 0 in shape or _shape_of_floats(node.outputs[0]) is None:
        return None
    axis = int(given[0]) % len(shape)
    inner = math.prod(shape[axis + 1 :])
    return None if inner == 1 else (math.prod(shape[:axis]), shape[axis], inner)


def _length_of_rows(node: ir.Node) -> int | None:
    """How many numbers a Softmax takes together; ``None`` where these are not the last axes."""
    source = node.inputs[0]
    shape = None if source is None else _shape_of_floats(source)
    if not shape or 0 in shape or not isinstance(node.graph, ir.Graph):
        return None
    axes = normalised_axes(node, len(shape), node.graph.opset_imports.get("", 0))
    return math.prod(shape[axis] for axis in axes) if axes[-1] == len(shape) - 1 else None


def _shape_of_floats(value: ir.Value) -> tuple[int, ...] | None:
    """The static shape of a float32 tensor; ``None`` for others."""
    return static_shape(value) if value.dtype == ir.DataType.FLOAT else None


OWN_ARITHMETIC: Mapping[tuple[str, str], Callable[[ir.Node], Compute]] = MappingProxyType(
    {
        (HORIZON_DOMAIN, PREPROCESS): _preprocess,
        (HORIZON_DOMAIN, "HzSwish"): _elementwise(SWISH),
        (HORIZON_DOMAIN, "HzGelu"): _elementwise(GELU),
        (HORIZON_DOMAIN, "HzRsqrt"): _rsqrt,
        ("", "ReduceMean"): _mean,
        ("", "Softmax"): _softmax,
        ("", "Sqrt"): _root,
        ("", "Tanh"): _tanh,
    }
)
"""By domain and type of the operator."""
