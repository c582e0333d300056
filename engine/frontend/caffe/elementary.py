"""Layers that are written with elementary operators: functions of each value, reductions, normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, prod

import onnx_ir as ir

from engine.errors import ModelError
from engine.frontend.caffe.graph import (
    Graph,
    blob,
    broadcastable,
    canonical_axis,
    check_bottoms,
    dims,
    given,
    image_shape,
    only_input,
    parameters,
)
from engine.frontend.caffe.reader import CaffeLayer


def absolute(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``AbsVal``."""
    value = only_input(layer, inputs)
    return [graph.op("Abs", [value], dims(value), layer.name)]


def elu(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``ELU``: x above 0, else alpha * (exp(x) - 1)."""
    value, alpha = only_input(layer, inputs), float(parameters(layer, "elu_param").alpha)
    return [graph.op("Elu", [value], dims(value), layer.name, alpha=alpha)]


def swish(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Swish``: x * sigmoid(beta * x)."""
    value, beta = only_input(layer, inputs), float(parameters(layer, "swish_param").beta)
    shape = dims(value)
    inner = _scaled(graph, layer, value, beta, "beta")
    gate = graph.op("Sigmoid", [inner], shape, f"{layer.name}_sigmoid")
    return [graph.op("Mul", [value, gate], shape, layer.name)]


def clip(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Clip`` to ``min`` .. ``max``."""
    value, options = only_input(layer, inputs), parameters(layer, "clip_param")
    limits = [given(options, name) for name in ("min", "max")]
    if None in limits:
        raise ModelError(f"{layer}: clip_param needs min and max")
    bounds = [graph.floats(limit, f"{layer.name}_{name}") for limit, name in zip(limits, ("min", "max"), strict=True)]
    return [graph.op("Clip", [value, *bounds], dims(value), layer.name)]


def exponential(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Exp``: base ** (shift + scale * x); a base of -1 is e."""
    value, options = only_input(layer, inputs), parameters(layer, "exp_param")
    factor = log(_base(layer, options.base))
    value = _scaled(graph, layer, value, float(options.scale) * factor, "scale")
    value = _shifted(graph, layer, value, float(options.shift) * factor)
    return [graph.op("Exp", [value], dims(value), layer.name)]


def logarithm(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Log``: logarithm of shift + scale * x; a base of -1 is e."""
    value, options = only_input(layer, inputs), parameters(layer, "log_param")
    value = _scaled(graph, layer, value, float(options.scale), "scale")
    value = _shifted(graph, layer, value, float(options.shift))
    factor = 1.0 / log(_base(layer, options.base))
    if factor == 1.0:
        return [graph.op("Log", [value], dims(value), layer.name)]
    natural = graph.op("Log", [value], dims(value), f"{layer.name}_natural")
    return [graph.op("Mul", [natural, graph.floats(factor, f"{layer.name}_base")], dims(value), layer.name)]


def softplus(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``BNLL``: log(1 + exp(x))."""
    value = only_input(layer, inputs)
    return [graph.op("Softplus", [value], dims(value), layer.name)]


def threshold(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Threshold``: 1 above the threshold, else 0."""
    value, limit = only_input(layer, inputs), float(parameters(layer, "threshold_param").threshold)
    operands = [value, graph.floats(limit, f"{layer.name}_threshold")]
    above = graph.op("Greater", operands, dims(value), f"{layer.name}_above")
    above.type = ir.TensorType(ir.DataType.BOOL)
    return [graph.op("Cast", [above], dims(value), layer.name, to=int(ir.DataType.FLOAT))]


def bias(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Bias``: a summand over some axes, learned or the second bottom."""
    check_bottoms(layer, inputs, 1, 2)
    options, shape = parameters(layer, "bias_param"), dims(inputs[0])
    axis = canonical_axis(layer, options.axis, len(shape)) if shape else 0
    if len(inputs) == 2:
        covered = dims(inputs[1])
        if covered != shape[axis : axis + len(covered)]:
            raise ModelError(f"{layer}: the second bottom {covered} does not fit {shape} from axis {axis}")
        target = (1,) * axis + covered + (1,) * (len(shape) - axis - len(covered))
        positions = graph.integers(target, f"{layer.name}_bias_shape")
        operand = graph.op("Reshape", [inputs[1], positions], target, f"{layer.name}_bias")
    else:
        end = len(shape) if options.num_axes == -1 else axis + options.num_axes
        if not axis <= end <= len(shape):
            raise ModelError(f"{layer}: {options.num_axes} axes from axis {axis} are more than there are: {shape}")
        operand = graph.constant(broadcastable(blob(layer, 0, shape[axis:end]), axis, len(shape)), f"{layer.name}_bias")
    return [graph.op("Add", [inputs[0], operand], shape, layer.name)]


def reduction(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Reduction``: sum, sum of magnitudes or squares, or mean, over all axes from ``axis`` on, times ``coeff``.

    What Caffe gives without dimensions, a reduction from axis 0, has one dimension here.
    """
    value, options = only_input(layer, inputs), parameters(layer, "reduction_param")
    shape = dims(value)
    axis = canonical_axis(layer, options.axis, len(shape))
    if axis == 0:
        shape, axis = (1, prod(shape)), 1
        flat = graph.integers(shape, f"{layer.name}_flat_shape")
        value = graph.op("Reshape", [value, flat], shape, f"{layer.name}_flat")
    kept, axes = shape[:axis], list(range(axis, len(shape)))
    kind = _REDUCTIONS[options.operation]
    coefficient = float(options.coeff)
    name = layer.name if coefficient == 1.0 else f"{layer.name}_reduced"
    if kind == "ReduceSum":
        result = graph.op(kind, [value, graph.integers(axes, f"{layer.name}_axes")], kept, name, keepdims=0)
    else:
        result = graph.op(kind, [value], kept, name, axes=axes, keepdims=0)
    if coefficient != 1.0:
        result = graph.op("Mul", [result, graph.floats(coefficient, f"{layer.name}_coeff")], kept, layer.name)
    return [result]


_REDUCTIONS = {1: "ReduceSum", 2: "ReduceL1", 3: "ReduceSumSquare", 4: "ReduceMean"}
"""Operator by Caffe's number."""


def mean_variance(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``MVN``: minus the mean of a channel (or of all), then over the standard deviation plus ``eps``."""
    value, options = only_input(layer, inputs), parameters(layer, "mvn_param")
    count, channels, height, width = image_shape(layer, value)
    shape, axes = (count, channels, height, width), [1, 2, 3] if options.across_channels else [2, 3]
    single = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    name = f"{layer.name}_centred" if options.normalize_variance else layer.name
    mean = graph.op("ReduceMean", [value], single, f"{layer.name}_mean", axes=axes, keepdims=1)
    centred = graph.op("Sub", [value, mean], shape, name)
    if not options.normalize_variance:
        return [centred]
    square = graph.op("Mul", [centred, centred], shape, f"{layer.name}_square")
    variance = graph.op("ReduceMean", [square], single, f"{layer.name}_variance", axes=axes, keepdims=1)
    deviation = graph.op("Sqrt", [variance], single, f"{layer.name}_deviation")
    bounded = _with(graph, layer, "Add", deviation, float(options.eps), "eps")
    return [graph.op("Div", [centred, bounded], shape, layer.name)]


def tile(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Tile``: ``tiles`` copies along ``axis``."""
    value, options = only_input(layer, inputs), parameters(layer, "tile_param")
    shape, tiles = dims(value), int(options.tiles)
    axis = canonical_axis(layer, options.axis, len(shape))
    if tiles < 1:
        raise ModelError(f"{layer}: tiles must be positive")
    repeats = [tiles if index == axis else 1 for index in range(len(shape))]
    result = tuple(size * times for size, times in zip(shape, repeats, strict=True))
    return [graph.op("Tile", [value, graph.integers(repeats, f"{layer.name}_repeats")], result, layer.name)]


def normalize(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Normalize`` of the SSD fork: over the root of the sum of squares plus ``eps``, then times a learned scale.

    The sum is over channels at each place, or over all of a sample (``across_spatial``).
    """
    value, options = only_input(layer, inputs), parameters(layer, "norm_param")
    count, channels, height, width = image_shape(layer, value)
    shape, axes = (count, channels, height, width), [1, 2, 3] if options.across_spatial else [1]
    single = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    squares = graph.op("ReduceSumSquare", [value], single, f"{layer.name}_squares", axes=axes, keepdims=1)
    bounded = _with(graph, layer, "Add", squares, float(options.eps), "eps")
    norm = graph.op("Sqrt", [bounded], single, f"{layer.name}_norm")
    unit = graph.op("Div", [value, norm], shape, f"{layer.name}_unit")
    scale = blob(layer, 0, (1,) if options.channel_shared else (channels,)).reshape(1, -1, 1, 1)
    return [graph.op("Mul", [unit, graph.constant(scale, f"{layer.name}_scale")], shape, layer.name)]


def axpy(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Axpy`` of the SENet fork: a * x + y, with one factor per sample and channel."""
    check_bottoms(layer, inputs, 3, 3)
    factors, x, y = inputs
    shape = image_shape(layer, x)
    if dims(y) != shape or dims(factors)[:2] != shape[:2] or prod(dims(factors)) != prod(shape[:2]):
        shapes = [dims(value) for value in inputs]
        raise ModelError(f"{layer}: bottoms {shapes}: expected (N, C, 1, 1) and twice (N, C, H, W)")
    wanted = (*shape[:2], 1, 1)
    if dims(factors) != wanted:
        target = graph.integers(wanted, f"{layer.name}_factor_shape")
        factors = graph.op("Reshape", [factors, target], wanted, f"{layer.name}_factors")
    scaled = graph.op("Mul", [x, factors], shape, f"{layer.name}_scaled")
    return [graph.op("Add", [scaled, y], shape, layer.name)]


def _base(layer: CaffeLayer, base: float) -> float:
    if base != -1.0 and not base > 0.0:
        raise ModelError(f"{layer}: base {base} must be positive, or -1 for e")
    return e if base == -1.0 else float(base)


def _scaled(graph: Graph, layer: CaffeLayer, value: ir.Value, factor: float, part: str) -> ir.Value:
    return value if factor == 1.0 else _with(graph, layer, "Mul", value, factor, part)


def _shifted(graph: Graph, layer: CaffeLayer, value: ir.Value, shift: float) -> ir.Value:
    return value if shift == 0.0 else _with(graph, layer, "Add", value, shift, "shift")


def _with(graph: Graph, layer: CaffeLayer, kind: str, value: ir.Value, number: float, part: str) -> ir.Value:
    """``value`` times or plus one number."""
    operand = graph.floats(number, f"{layer.name}_{part}_value")
    return graph.op(kind, [value, operand], dims(value), f"{layer.name}_{part}")
