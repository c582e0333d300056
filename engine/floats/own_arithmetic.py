"""Nodes whose sums and roundings ONNX Runtime has otherwise than the original's own runtime.

Thresholds are maxima of what these nodes give, and deep networks amplify one different last bit; on bernoulli2, where
attention runs in float, even to steps of the result. Calibration and both simulators compute them here. What each has
was asked of the original's runtime, 416 nodes of 80 kinds and 630 reductions at once (docs/evidence/calibration.md);
ONNX Runtime computes everything else.

* ``HzPreprocess``: the channels' products one after the other, then the bias, without fused multiply-add.
* ``HzSwish``: ``x * (1 / (1 + exp(-x)))`` with the C library's ``expf``; ``HzMish``, ``Softplus`` and ``Elu`` take it
  too.
* ``HzRsqrt``: a sum below the root in float32, root, sum behind it and quotient in float64.
* ``HzGelu``: in float64, rounded once.
* ``HzSoftmax``: the C library's exponentials, added up one after the other; a quotient, not the reciprocal.
* ``Exp``, ``Log``, ``Selu``, ``Softmax``, ``LogSoftmax``: Eigen's exponential and logarithm, in fours.
* ``Sqrt``: in fours, a step of Newton's from the CPU's estimate of the reciprocal root. So are the roots of a
  ``ReduceL2`` and of the variances of a ``BatchNormalization``.
* Reductions: the reduced axes first, results in fours (:mod:`engine.floats.reduction_loops`); sums and means over the
  last axes are ONNX Runtime's.
* ``LRN``: the window's sum of squares moves along the channels, one comes in and one leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.floats.compiled import (
    ELEMENTWISE_BLOCK,
    ELU,
    EXPONENTIAL,
    GELU,
    LOG_SOFTMAX_ROWS,
    LOGARITHM,
    LRN,
    MISH,
    PRODUCTS_OF_COLUMNS,
    ROOT,
    RSQRT,
    SELU,
    SOFTMAX_ALONG,
    SOFTMAX_ROWS,
    SOFTPLUS,
    SUMS_OF_COLUMNS,
    SWISH,
)
from engine.ir import HORIZON_DOMAIN, attribute, constant_of, static_shape
from engine.native.loops import Loop
from engine.ops.foreign.composite import PREPROCESS, axis_of_softmax, epsilons_of_rsqrt, reads_integers
from engine.ops.softmax import normalised_axes

Array = NDArray[Any]
Shape = tuple[int, ...]
Compute = Callable[[Array, Array], None]
"""Computes the first argument, float32, into the second, both C-contiguous."""
Arithmetic = Callable[[ir.Node, Shape], "Compute | None"]
"""What computes a node that reads float32 of this shape first; None where ONNX Runtime is to."""

_CHANNELS_FIRST = (0, 3, 1, 2)


def has_own_arithmetic(node: ir.Node) -> bool:
    """Whether :func:`computed` is to compute ``node``, which reads and gives float32 of static shapes.

    What has operands that are computed, or is over axes that were not asked, is ONNX Runtime's.
    """
    return _found(node) is not None


def computed(node: ir.Node) -> Compute:
    """What computes ``node``.

    Raises:
        ModelError: ONNX Runtime is to.
    """
    compute = _found(node)
    if compute is None:
        raise ModelError(f"node {node.name!r} ({node.op_type}) has no arithmetic of its own")
    return compute


def _found(node: ir.Node) -> Compute | None:
    if _kind(node) not in OWN_ARITHMETIC or not node.inputs or node.inputs[0] is None:
        return None
    if constant_of(node.inputs[0]) is not None:  # no step computes it
        return None
    shape = _shape_of_floats(node.inputs[0])
    if shape is None or 0 in shape or _shape_of_floats(node.outputs[0]) is None:
        return None
    return OWN_ARITHMETIC[_kind(node)](node, shape)


def is_float_composite(node: ir.Node) -> bool:
    """Whether ``node`` is a composite on floats that simulators compute here, not by the nodes that it stands for."""
    source = node.inputs[0] if node.inputs else None
    is_float = source is not None and source.dtype in (ir.DataType.FLOAT, None)
    return is_float and node.domain == HORIZON_DOMAIN and _kind(node) in SIMULATED and not reads_integers(node)


def on_arrays(node: ir.Node, shape: Shape) -> Callable[[Array], Array] | None:
    """What computes ``node`` on a float32 array of ``shape`` in a simulator; None where ONNX Runtime does.

    Args:
        node: its other operands are constants.
        shape: of what it reads.
    """
    compute = SIMULATED[_kind(node)](node, shape) if _kind(node) in SIMULATED and 0 not in shape else None
    if compute is None:
        return None
    axes = _reduced_axes(node, len(shape)) if node.op_type in _REDUCTIONS else ()
    reduced = _reduced(shape, axes, bool(attribute(node, "keepdims", 1))) if axes else shape

    def function(source: Array) -> Array:
        result = np.empty(reduced, np.float32)
        compute(np.ascontiguousarray(source), result)
        return result

    return function


def _kind(node: ir.Node) -> tuple[str, str]:
    """Domain and type; the standard domain has two names."""
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


def _elementwise(loop: Loop) -> Arithmetic:
    """What computes a node by a loop over numbers."""

    def compute(source: Array, result: Array) -> None:
        loop(np.ascontiguousarray(source).reshape(-1), result.reshape(-1))

    return lambda node, shape: compute


def _in_blocks(loop: Loop) -> Arithmetic:
    """What computes a node by a loop over blocks of numbers."""

    def compute(source: Array, result: Array) -> None:
        loop(np.ascontiguousarray(source).reshape(-1), np.empty(ELEMENTWISE_BLOCK, np.int64), result.reshape(-1))

    return lambda node, shape: compute


def _with_factors(loop: Loop, factors: Callable[[ir.Node], Any]) -> Arithmetic:
    """What computes a node by a loop over numbers that takes what attributes say."""

    def arithmetic(node: ir.Node, shape: Shape) -> Compute:
        given = factors(node)

        def compute(source: Array, result: Array) -> None:
            loop(np.ascontiguousarray(source).reshape(-1), given, result.reshape(-1))

        return compute

    return arithmetic


def _added_to_root(node: ir.Node) -> Array:
    """What an ``HzRsqrt`` adds below its root and behind it."""
    return np.array(
        epsilons_of_rsqrt({name: attribute(node, name, 0) for name in ("epsilon", "is_sqrt_add_reciprocal")}),
        np.float32,
    )


def _selu(node: ir.Node, shape: Shape) -> Compute | None:
    """Of positive factors, which the original was asked with."""
    factors = [attribute(node, "alpha", 1.67326319217681884765625), attribute(node, "gamma", 1.05070102214813232421875)]
    given = np.asarray(factors, np.float32)
    return _with_factors(SELU, lambda node: given)(node, shape) if given.min() > 0 else None


def _preprocess(node: ir.Node, shape: Shape) -> Compute | None:
    weight, bias = (constant_of(value) for value in node.inputs[1:3])
    if weight is None or bias is None:
        return None
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


def _softmax(loop: Loop) -> Arithmetic:
    """Over the last axes alone."""

    def arithmetic(node: ir.Node, shape: Shape) -> Compute | None:
        if not shape or not isinstance(node.graph, ir.Graph):
            return None
        opsets = node.graph.opset_imports
        axes = normalised_axes(node, len(shape), opsets.get("", opsets.get("ai.onnx", 0)))
        if axes[-1] != len(shape) - 1:
            return None
        length = math.prod(shape[axis] for axis in axes)

        def compute(source: Array, result: Array) -> None:
            loop(np.ascontiguousarray(source).reshape(-1, length), result.reshape(-1, length))

        return compute

    return arithmetic


def _softmax_along(node: ir.Node, shape: Shape) -> Compute:
    """Over one axis."""
    axis = axis_of_softmax(node, len(shape))
    maps = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))

    def compute(source: Array, result: Array) -> None:
        SOFTMAX_ALONG(np.ascontiguousarray(source).reshape(maps), result.reshape(maps))

    return compute


def _reduction(
    loop: Loop,
    before: Callable[[Array], Array] | None = None,
    after: Callable[[Array, int], Array] | None = None,
    over_last: bool = True,
) -> Arithmetic:
    """Of the numbers that ``before`` makes; ``after`` takes the results and how many numbers each has.

    Without ``over_last`` those over the last axes, whose rows lie side by side, are ONNX Runtime's.
    """

    def arithmetic(node: ir.Node, shape: Shape) -> Compute | None:
        axes = _reduced_axes(node, len(shape))
        if not axes or (not over_last and axes == tuple(range(len(shape) - len(axes), len(shape)))):
            return None
        order = (*axes, *(axis for axis in range(len(shape)) if axis not in axes))
        count = math.prod(shape[axis] for axis in axes)

        def compute(source: Array, result: Array) -> None:
            numbers = source if before is None else before(source)
            columns = np.ascontiguousarray(numbers.reshape(shape).transpose(order)).reshape(count, -1)
            loop(columns, result.reshape(-1))
            if after is not None:
                result[...] = after(result.reshape(-1), count).reshape(result.shape)

        return compute

    return arithmetic


def _reduced_axes(node: ir.Node, rank: int) -> Shape:
    """What a reduction is over, in rising order.

    Nothing where that is computed, where no axes are to mean none, and where ``rank`` has no such axis.
    """
    given = attribute(node, "axes")
    if given is None and attribute(node, "noop_with_empty_axes", 0):
        return ()
    if given is None and len(node.inputs) > 1:
        array = constant_of(node.inputs[1])
        given = None if array is None else array.tolist()
        if given is None:
            return ()
    if given is None:
        return tuple(range(rank))
    if not all(-rank <= axis < rank for axis in given):
        return ()
    return tuple(sorted({int(axis) % rank for axis in given}))


def _reduced(shape: Shape, axes: Shape, kept: bool) -> Shape:
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return tuple(size for axis, size in enumerate(sizes) if kept or axis not in axes)


def _rooted(numbers: Array, count: int = 0) -> Array:
    """Square roots as :func:`engine.floats.elementwise_loops.root` has them, of shape (n,)."""
    result = np.empty_like(numbers)
    ROOT(np.ascontiguousarray(numbers), result)
    return result


def _logarithms(numbers: Array, count: int) -> Array:
    """Rounded from float64, which the C library's ``logf`` hardly ever differs from."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(numbers, dtype=np.float64), np.float32)


def _mean_of(sums: Array, count: int) -> Array:
    return np.asarray(sums / np.float32(count))


def _normalisation(node: ir.Node, shape: Shape) -> Compute | None:
    """A factor and a shift of every channel, the factor by the reciprocal of a root; training is not computed."""
    constants = [constant_of(value) for value in node.inputs[1:5]]
    if len(constants) < 4 or len(shape) < 2 or len(node.outputs) > 1 or attribute(node, "training_mode", 0):
        return None
    if any(array is None or array.dtype != np.float32 or array.size != shape[1] for array in constants):
        return None
    scale, bias, mean, variance = (np.asarray(array, np.float32).reshape(-1) for array in constants)
    root = _rooted(variance + np.float32(attribute(node, "epsilon", 1e-5)))
    factor = scale * (np.float32(1) / root)
    channels = (1, -1, *(1 for _ in shape[2:]))
    factors, shifts = factor.reshape(channels), (bias - mean * factor).reshape(channels)

    def compute(source: Array, result: Array) -> None:
        np.multiply(source, factors, out=result)
        result += shifts

    return compute


def _response_normalisation(node: ir.Node, shape: Shape) -> Compute | None:
    size = attribute(node, "size", 0)
    if len(shape) < 3 or size < 1 or size % 2 == 0:
        return None
    alpha = np.float32(attribute(node, "alpha", 1e-4)) / np.float32(size)
    factors = np.asarray([alpha, attribute(node, "beta", 0.75), attribute(node, "bias", 1.0)], np.float32)
    channels, places = shape[1], math.prod(shape[2:])

    def compute(source: Array, result: Array) -> None:
        maps, found = np.ascontiguousarray(source).reshape(-1, channels, places), result.reshape(-1, channels, places)
        for given, normalised in zip(maps, found, strict=True):
            LRN(given, factors, size // 2, normalised)

    return compute


def _shape_of_floats(value: ir.Value) -> Shape | None:
    """The static shape of a float32 tensor; ``None`` for others."""
    return static_shape(value) if value.dtype == ir.DataType.FLOAT else None


_REDUCTIONS: Mapping[str, Arithmetic] = MappingProxyType(
    {
        "ReduceL1": _reduction(SUMS_OF_COLUMNS, np.abs),
        "ReduceL2": _reduction(SUMS_OF_COLUMNS, np.square, _rooted),
        "ReduceLogSum": _reduction(SUMS_OF_COLUMNS, None, _logarithms),
        "ReduceMean": _reduction(SUMS_OF_COLUMNS, None, _mean_of, over_last=False),
        "ReduceProd": _reduction(PRODUCTS_OF_COLUMNS),
        "ReduceSum": _reduction(SUMS_OF_COLUMNS, over_last=False),
        "ReduceSumSquare": _reduction(SUMS_OF_COLUMNS, np.square),
    }
)

OWN_ARITHMETIC: Mapping[tuple[str, str], Arithmetic] = MappingProxyType(
    {
        (HORIZON_DOMAIN, PREPROCESS): _preprocess,
        (HORIZON_DOMAIN, "HzGelu"): _in_blocks(GELU),
        (HORIZON_DOMAIN, "HzMish"): _elementwise(MISH),
        (HORIZON_DOMAIN, "HzRsqrt"): _with_factors(RSQRT, _added_to_root),
        (HORIZON_DOMAIN, "HzSoftmax"): _softmax_along,
        (HORIZON_DOMAIN, "HzSwish"): _in_blocks(SWISH),
        ("", "BatchNormalization"): _normalisation,
        ("", "Elu"): _with_factors(ELU, lambda node: np.float32(attribute(node, "alpha", 1.0))),
        ("", "Exp"): _elementwise(EXPONENTIAL),
        ("", "LRN"): _response_normalisation,
        ("", "Log"): _elementwise(LOGARITHM),
        ("", "LogSoftmax"): _softmax(LOG_SOFTMAX_ROWS),
        ("", "Selu"): _selu,
        ("", "Softmax"): _softmax(SOFTMAX_ROWS),
        ("", "Softplus"): _elementwise(SOFTPLUS),
        ("", "Sqrt"): _elementwise(ROOT),
        **{("", op_type): arithmetic for op_type, arithmetic in _REDUCTIONS.items()},
    }
)
"""By domain and type of the operator."""

SIMULATED: Mapping[tuple[str, str], Arithmetic] = MappingProxyType(
    {
        kind: arithmetic
        for kind, arithmetic in OWN_ARITHMETIC.items()
        if kind not in ((HORIZON_DOMAIN, PREPROCESS), ("", "Softmax"))
    }
)
"""What simulators compute so: the others have kernels of their own."""
