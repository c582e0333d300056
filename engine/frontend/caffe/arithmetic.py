"""Layers that compute: convolutions, pooling, normalisation, activations, arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
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
    per_side,
)
from engine.frontend.caffe.reader import CaffeLayer, Shape


def convolution(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Convolution``: floor((H + 2p - (d(k-1)+1)) / s) + 1."""
    value = only_input(layer, inputs)
    count, channels, *sides = image_shape(layer, value)
    window = _Window(layer)
    outputs = window.outputs(layer)
    shape = (outputs, channels // window.group, *window.kernel)
    sizes = [(side + 2 * p - extent) // s + 1 for side, p, s, extent in window.per_axis(sides)]
    window.check_group(layer, channels, outputs)
    operands = _with_bias(graph, layer, value, shape, outputs, window.bias_term)
    return [graph.op("Conv", operands, (count, outputs, *sizes), layer.name, **window.attributes())]


def deconvolution(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Deconvolution``: s(H-1) + d(k-1) + 1 - 2p."""
    value = only_input(layer, inputs)
    count, channels, *sides = image_shape(layer, value)
    window = _Window(layer)
    outputs = window.outputs(layer)
    shape = (channels, outputs // window.group, *window.kernel)
    sizes = [s * (side - 1) + extent - 2 * p for side, p, s, extent in window.per_axis(sides)]
    window.check_group(layer, channels, outputs)
    operands = _with_bias(graph, layer, value, shape, outputs, window.bias_term)
    return [graph.op("ConvTranspose", operands, (count, outputs, *sizes), layer.name, **window.attributes())]


class _Window:
    """Kernel, stride, padding, dilation and groups of a convolution."""

    def __init__(self, layer: CaffeLayer) -> None:
        given_values = parameters(layer, "convolution_param")
        self.kernel = _sides(layer, given_values, "kernel_size", "kernel", 0)
        self.stride = _sides(layer, given_values, "stride", "stride", 1)
        self.pad = _sides(layer, given_values, "pad", "pad", 0)
        self.dilation = per_side(layer, given_values.dilation, (None, None), 1)
        self.group = given_values.group
        self.bias_term = given_values.bias_term
        self._outputs = given_values.num_output
        if given_values.axis not in (1, -3):
            raise UnsupportedError(f"{layer}: axis {given_values.axis} is not supported; allowed is 1")
        if min(*self.kernel, *self.stride, *self.dilation, self.group) < 1:
            raise ModelError(f"{layer}: kernel, stride, dilation and group must be positive")

    def outputs(self, layer: CaffeLayer) -> int:
        """Number of output channels."""
        if self._outputs < 1:
            raise ModelError(f"{layer}: num_output must be positive")
        return int(self._outputs)

    def check_group(self, layer: CaffeLayer, channels: int, outputs: int) -> None:
        """Groups must divide both channel counts."""
        if channels % self.group or outputs % self.group:
            raise ModelError(f"{layer}: group {self.group} must divide {channels} input and {outputs} output channels")

    def per_axis(self, sides: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Side, padding, stride and extent of the dilated kernel, per axis."""
        extents = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        return list(zip(sides, self.pad, self.stride, extents, strict=True))

    def attributes(self) -> dict[str, Any]:
        """Attributes of the ONNX operator."""
        return {
            "kernel_shape": list(self.kernel),
            "strides": list(self.stride),
            "pads": [*self.pad, *self.pad],
            "dilations": list(self.dilation),
            "group": int(self.group),
        }


def _sides(layer: CaffeLayer, message: Any, field: str, stem: str, default: int) -> tuple[int, int]:
    pair = (given(message, f"{stem}_h"), given(message, f"{stem}_w"))
    repeated = getattr(message, field)
    values = repeated if not isinstance(repeated, int) else [repeated] if message.HasField(field) else []
    return per_side(layer, values, pair, default)


def _with_bias(
    graph: Graph, layer: CaffeLayer, value: ir.Value, shape: Sequence[int], outputs: int, bias: bool
) -> list[ir.Value]:
    """The input, the weight as ``shape`` and, where there is one, the bias of ``outputs`` values."""
    operands = [value, graph.constant(blob(layer, 0, shape), f"{layer.name}_weight")]
    if bias:
        operands.append(graph.constant(blob(layer, 1, (outputs,)), f"{layer.name}_bias"))
    return operands


def inner_product(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``InnerProduct``: everything from ``axis`` on is one vector."""
    value = only_input(layer, inputs)
    options = parameters(layer, "inner_product_param")
    shape = dims(value)
    axis = canonical_axis(layer, options.axis, len(shape))
    outer, length, outputs = shape[:axis], int(np.prod(shape[axis:])), int(options.num_output)
    weight_shape = (length, outputs) if options.transpose else (outputs, length)
    rows = int(np.prod(outer))
    if (rows, length) != shape:
        target = graph.integers((rows, length), f"{layer.name}_matrix_shape")
        value = graph.op("Reshape", [value, target], (rows, length), f"{layer.name}_matrix")
    operands = _with_bias(graph, layer, value, weight_shape, outputs, options.bias_term)
    result = graph.op("Gemm", operands, (rows, outputs), layer.name, transB=int(not options.transpose))
    if axis != 1:
        target = graph.integers((*outer, outputs), f"{layer.name}_shape")
        result = graph.op("Reshape", [result, target], (*outer, outputs), f"{layer.name}_shaped")
    return [result]


def batch_norm(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``BatchNorm``: the stored sums divided by the stored scale factor; a factor of 0 makes them 0."""
    value = only_input(layer, inputs)
    options = parameters(layer, "batch_norm_param")
    if given(options, "use_global_stats") is False:
        raise UnsupportedError(f"{layer}: use_global_stats false (statistics of the running batch) is not supported")
    shape = dims(value)
    channels = shape[1] if len(shape) > 1 else 1
    factor = float(blob(layer, 2, (1,))[0])
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = np.float32(0.0 if factor == 0.0 else 1.0 / factor)
        mean, variance = (blob(layer, index, (channels,)) * inverse for index in (0, 1))
    ones = np.ones(channels, np.float32)
    operands = [
        graph.constant(array, f"{layer.name}_{part}")
        for part, array in (
            ("scale", ones),
            ("bias", 0 * ones),
            ("mean", mean),
            ("variance", variance),
        )
    ]
    return [graph.op("BatchNormalization", [value, *operands], shape, layer.name, epsilon=float(options.eps))]


def scale(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Scale``: a factor over some axes, learned or the second bottom, and an optional bias of the same shape."""
    check_bottoms(layer, inputs, 1, 2)
    options, shape = parameters(layer, "scale_param"), dims(inputs[0])
    learned = len(inputs) == 1
    axis = canonical_axis(layer, options.axis, len(shape)) if shape else 0
    if learned:
        end = len(shape) if options.num_axes == -1 else axis + options.num_axes
        if not axis <= end <= len(shape):
            raise ModelError(f"{layer}: {options.num_axes} axes from axis {axis} are more than there are: {shape}")
        covered = shape[axis:end]
        factor = graph.constant(broadcastable(blob(layer, 0, covered), axis, len(shape)), f"{layer.name}_scale")
    else:
        covered = dims(inputs[1])
        if covered != shape[axis : axis + len(covered)]:
            raise ModelError(f"{layer}: the second bottom {covered} does not fit {shape} from axis {axis}")
        aligned = (1,) * axis + covered + (1,) * (len(shape) - axis - len(covered))
        target = graph.integers(aligned, f"{layer.name}_scale_shape")
        factor = graph.op("Reshape", [inputs[1], target], aligned, f"{layer.name}_scale")
    result = graph.op("Mul", [inputs[0], factor], shape, layer.name)
    if options.bias_term:
        bias = broadcastable(blob(layer, int(learned), covered), axis, len(shape))
        result = graph.op("Add", [result, graph.constant(bias, f"{layer.name}_bias")], shape, f"{layer.name}_with_bias")
    return [result]


def relu(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``ReLU``, with ``negative_slope`` a leaky one."""
    value, slope = only_input(layer, inputs), float(parameters(layer, "relu_param").negative_slope)
    if slope == 0.0:
        return [graph.op("Relu", [value], dims(value), layer.name)]
    return [graph.op("LeakyRelu", [value], dims(value), layer.name, alpha=slope)]


def relu6(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``ReLU6``: clipped to 0..6."""
    value = only_input(layer, inputs)
    limits = [graph.floats(limit, f"{layer.name}_{name}") for name, limit in (("min", 0.0), ("max", 6.0))]
    return [graph.op("Clip", [value, *limits], dims(value), layer.name)]


def prelu(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``PReLU``: a slope per channel, or one for all."""
    value = only_input(layer, inputs)
    shape = dims(value)
    if len(shape) < 2:
        raise ModelError(f"{layer}: its bottom needs 2 dimensions or more, it has {shape}")
    shared = parameters(layer, "prelu_param").channel_shared
    slope = blob(layer, 0, (1,) if shared else (shape[1],)).reshape((-1,) + (1,) * (len(shape) - 2))
    return [graph.op("PRelu", [value, graph.constant(slope, f"{layer.name}_slope")], shape, layer.name)]


def sigmoid(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Sigmoid``."""
    value = only_input(layer, inputs)
    return [graph.op("Sigmoid", [value], dims(value), layer.name)]


def tanh(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``TanH``."""
    value = only_input(layer, inputs)
    return [graph.op("Tanh", [value], dims(value), layer.name)]


def softmax(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Softmax`` over one axis."""
    value = only_input(layer, inputs)
    axis = canonical_axis(layer, parameters(layer, "softmax_param").axis, len(dims(value)))
    return [graph.op("Softmax", [value], dims(value), layer.name, axis=axis)]


def power(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Power``: (shift + scale * x) ** power."""
    value, options = only_input(layer, inputs), parameters(layer, "power_param")
    steps = [
        (kind, float(operand), part)
        for kind, operand, part, neutral in (
            ("Mul", options.scale, "scale", 1.0),
            ("Add", options.shift, "shift", 0.0),
            ("Pow", options.power, "power", 1.0),
        )
        if operand != neutral
    ]
    if not steps:
        return [graph.op("Identity", [value], dims(value), layer.name)]
    for index, (kind, operand, part) in enumerate(steps):
        name = layer.name if index == len(steps) - 1 else f"{layer.name}_{part}"
        value = graph.op(kind, [value, graph.floats(operand, f"{layer.name}_{part}_value")], dims(value), name)
    return [value]


def eltwise(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``Eltwise``: product, sum with coefficients, or maximum of bottoms of one shape."""
    check_bottoms(layer, inputs, 2, None)
    options, shape = parameters(layer, "eltwise_param"), dims(inputs[0])
    if any(dims(value) != shape for value in inputs):
        raise ModelError(f"{layer}: its bottoms differ in shape: {[dims(value) for value in inputs]}")
    operation = ("Mul", "Add", "Max")[options.operation]
    coefficients = [float(item) for item in options.coeff] or [1.0] * len(inputs)
    if len(coefficients) != len(inputs) or (options.coeff and operation != "Add"):
        raise ModelError(f"{layer}: coeff goes with SUM and needs one value for each of the {len(inputs)} bottoms")
    values = list(inputs)
    if operation == "Add" and coefficients == [1.0, -1.0]:
        return [graph.op("Sub", values, shape, layer.name)]
    for index, factor in enumerate(coefficients):
        if factor != 1.0:
            operand = graph.floats(factor, f"{layer.name}_coeff_{index}")
            values[index] = graph.op("Mul", [values[index], operand], shape, f"{layer.name}_scaled_{index}")
    result = values[0]
    for index, value in enumerate(values[1:], 1):
        name = layer.name if index == len(values) - 1 else f"{layer.name}_{index}"
        result = graph.op(operation, [result, value], shape, name)
    return [result]


def lrn(graph: Graph, layer: CaffeLayer, inputs: Sequence[ir.Value]) -> list[ir.Value]:
    """``LRN`` across channels, or within them: x * (1 + alpha * mean(x^2 in the window)) ** -beta."""
    value, options = only_input(layer, inputs), parameters(layer, "lrn_param")
    shape: Shape = image_shape(layer, value)
    size, alpha, beta = int(options.local_size), float(options.alpha), float(options.beta)
    if size % 2 == 0:
        raise ModelError(f"{layer}: local_size {size} must be odd")
    if options.norm_region == 0:
        settings = {"size": size, "alpha": alpha, "beta": beta, "bias": float(options.k)}
        return [graph.op("LRN", [value], shape, layer.name, **settings)]
    square = graph.op("Mul", [value, value], shape, f"{layer.name}_square")
    window = {"kernel_shape": [size, size], "strides": [1, 1], "pads": [size // 2] * 4, "count_include_pad": 1}
    mean = graph.op("AveragePool", [square], shape, f"{layer.name}_mean", **window)
    for kind, operand, part in (("Mul", alpha, "alpha"), ("Add", 1.0, "shift"), ("Pow", -beta, "factor")):
        mean = graph.op(
            kind, [mean, graph.floats(operand, f"{layer.name}_{part}_value")], shape, f"{layer.name}_{part}"
        )
    return [graph.op("Mul", [value, mean], shape, layer.name)]
