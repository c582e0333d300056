"""Small float networks, built step by step so that every drawn graph is valid: nothing is generated and thrown away.

A network is a chain of blocks over one NCHW feature map (convolutions of every kind, activations, residual and
concatenated branches, pooling, resizing) and a tail (a map, a classifier, a reshape). Shapes, pads, strides, groups and
the style of the weights are drawn; the weights themselves come from a seeded generator, so that an example prints and
shrinks well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Draw = Callable[[st.SearchStrategy], object]

WEIGHT_STYLES = ("normal", "tiny", "huge", "zero_channel", "all_zero", "one_hot", "constant")
INPUT_STYLES = ("normal", "extreme", "zeros", "constant")
OPSETS = (10, 11, 12, 13, 15, 17, 19)


@dataclass(frozen=True)
class GraphCase:
    """A float network with data to calibrate it and to run it.

    Attributes:
        model: one input ``x``, float32 NCHW, batch 1; one output ``y``.
        calibration: float32, shape (samples, C, H, W).
        samples: float32, shape (samples, C, H, W): other data to run.
        blocks: what was drawn, for the reader of a failing example.
    """

    model: onnx.ModelProto = field(repr=False)
    calibration: NDArray[np.float32] = field(repr=False)
    samples: NDArray[np.float32] = field(repr=False)
    blocks: tuple[str, ...]


class GraphBuilder:
    """Appends nodes to one graph and keeps the shape of every tensor."""

    def __init__(self, opset: int, seed: int, style: str) -> None:
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.style = style
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.blocks: list[str] = []

    def constant(self, hint: str, array: NDArray) -> str:
        name = f"{hint}_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def node(self, op_type: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        self.shapes[output] = shape
        return output

    def weights(self, shape: tuple[int, ...], channel_axis: int = 0) -> NDArray[np.float32]:
        """Weights of the graph's style; scaled by fan-in, so that activations neither vanish nor explode."""
        fan_in = max(1, int(np.prod(shape)) // shape[channel_axis])
        array = self.rng.normal(0.0, 1.0 / np.sqrt(fan_in), shape)
        channel = tuple(0 if axis == channel_axis else slice(None) for axis in range(len(shape)))
        match self.style:
            case "tiny":
                array *= 1e-6
            case "huge":
                array *= 1e3
            case "zero_channel":
                array[channel] = 0.0
            case "all_zero":
                array[...] = 0.0
            case "one_hot":
                array[...] = 0.0
                array.reshape(-1)[0] = 1.0
            case "constant":
                array[...] = 1.0 / fan_in
        return array.astype(np.float32)

    def bias(self, channels: int) -> NDArray[np.float32]:
        scale = {"tiny": 1e-6, "huge": 1e3, "all_zero": 0.0}.get(self.style, 0.3)
        return (self.rng.normal(0.0, 1.0, channels) * scale).astype(np.float32)


@dataclass(frozen=True)
class ConvGeometry:
    """Kernel, stride, dilation and pads of one axis, with the output size that follows."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    out: int


def conv_axis(draw: Draw, size: int, max_kernel: int = 5, max_dilation: int = 2) -> ConvGeometry:
    """Draw a legal geometry for an axis of ``size`` elements."""
    kernel = draw(st.integers(1, min(max_kernel, size + 2)))
    dilation = draw(st.integers(1, max_dilation)) if kernel > 1 else 1
    extent = (kernel - 1) * dilation + 1
    limit = extent - 1
    before = draw(st.integers(max(0, min(limit, extent - size)), limit))
    after_least = max(0, extent - size - before)
    after = draw(st.integers(after_least, max(after_least, min(limit, 3))))
    stride = draw(st.integers(1, 2))
    return ConvGeometry(kernel, stride, dilation, before, after, (size + before + after - extent) // stride + 1)


def conv(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Dense, grouped or depthwise convolution, with or without bias.

    Rows are dilated no more than columns: bernoulli2 leaves others to the CPU, which pads both ends alike.
    """
    _, channels, height, width = b.shapes[x]
    columns = conv_axis(draw, width)
    rows = conv_axis(draw, height, max_dilation=columns.dilation)
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    group = draw(st.sampled_from(divisors))
    out_channels = group * draw(st.integers(1, max(1, 12 // group)))
    inputs = [x, b.constant("w", b.weights((out_channels, channels // group, rows.kernel, columns.kernel)))]
    if draw(st.booleans()):
        inputs.append(b.constant("b", b.bias(out_channels)))
    b.blocks.append(f"conv {channels}->{out_channels} k{rows.kernel}x{columns.kernel} s{rows.stride} g{group}")
    return b.node(
        "Conv",
        inputs,
        (1, out_channels, rows.out, columns.out),
        kernel_shape=[rows.kernel, columns.kernel],
        strides=[rows.stride, columns.stride],
        dilations=[rows.dilation, columns.dilation],
        pads=[rows.before, columns.before, rows.after, columns.after],
        group=group,
    )


def same_conv(b: GraphBuilder, x: str, out_channels: int, kernel: int) -> str:
    """Convolution that keeps the map's size."""
    _, channels, height, width = b.shapes[x]
    weight = b.constant("w", b.weights((out_channels, channels, kernel, kernel)))
    return b.node(
        "Conv",
        [x, weight, b.constant("b", b.bias(out_channels))],
        (1, out_channels, height, width),
        kernel_shape=[kernel, kernel],
        pads=[kernel // 2] * 4,
    )


def batch_norm(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Convolution followed by a batch normalisation."""
    x = conv(b, draw, x)
    channels = b.shapes[x][1]
    parameters = [
        b.constant("gamma", b.rng.uniform(0.5, 1.5, channels).astype(np.float32)),
        b.constant("beta", b.rng.normal(0, 0.3, channels).astype(np.float32)),
        b.constant("mean", b.rng.normal(0, 0.3, channels).astype(np.float32)),
        b.constant("var", b.rng.uniform(0.5, 2.0, channels).astype(np.float32)),
    ]
    b.blocks.append("batch norm")
    return b.node("BatchNormalization", [x, *parameters], b.shapes[x], epsilon=1e-5)


def activation(b: GraphBuilder, draw: Draw, x: str) -> str:
    """One of the activations that fuse, become a look-up table, or have an operator of their own."""
    kind = draw(st.sampled_from(("Relu", "Clip6", "Sigmoid", "Swish", "Tanh", "LeakyRelu", "HardSwish")))
    b.blocks.append(kind)
    shape = b.shapes[x]
    match kind:
        case "Clip6":
            return clip(b, x, 0.0, 6.0)
        case "Swish":
            return b.node("Mul", [x, b.node("Sigmoid", [x], shape)], shape)
        case "LeakyRelu":
            return b.node("LeakyRelu", [x], shape, alpha=draw(st.sampled_from((0.01, 0.1, 0.25))))
        case "HardSwish":
            three, six = b.constant("three", np.float32(3)), b.constant("six", np.float32(6))
            gate = clip(b, b.node("Add", [x, three], shape), 0.0, 6.0)
            return b.node("Div", [b.node("Mul", [x, gate], shape), six], shape)
    return b.node(kind, [x], shape)


def clip(b: GraphBuilder, x: str, low: float, high: float) -> str:
    """``Clip`` in the form of the graph's opset (limits are attributes before 11)."""
    if b.opset < 11:
        return b.node("Clip", [x], b.shapes[x], min=low, max=high)
    limits = [b.constant("low", np.float32(low)), b.constant("high", np.float32(high))]
    return b.node("Clip", [x, *limits], b.shapes[x])


def residual(b: GraphBuilder, draw: Draw, x: str) -> str:
    """A branch of one or two convolutions added to its input, sometimes followed by Relu."""
    channels = b.shapes[x][1]
    branch = b.node("Relu", [same_conv(b, x, channels, 3)], b.shapes[x])
    if draw(st.booleans()):
        branch = same_conv(b, branch, channels, 1)
    operands = [branch, x] if draw(st.booleans()) else [x, branch]
    y = b.node("Add", operands, b.shapes[x])
    b.blocks.append("residual")
    return b.node("Relu", [y], b.shapes[x]) if draw(st.booleans()) else y


def concat(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Two branches joined on the channels."""
    _, channels, height, width = b.shapes[x]
    first = same_conv(b, x, draw(st.integers(1, 6)), draw(st.sampled_from((1, 3))))
    second = x if draw(st.booleans()) else b.node("Relu", [same_conv(b, x, channels, 1)], b.shapes[x])
    total = b.shapes[first][1] + b.shapes[second][1]
    b.blocks.append("concat")
    return b.node("Concat", [first, second], (1, total, height, width), axis=1)


def pool(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Max or average pooling."""
    _, channels, height, width = b.shapes[x]
    kind = draw(st.sampled_from(("MaxPool", "AveragePool")))
    kernel = draw(st.integers(1, min(3, height, width)))
    stride = draw(st.integers(1, 2))
    pad = draw(st.integers(0, kernel // 2))
    out = tuple((size + 2 * pad - kernel) // stride + 1 for size in (height, width))
    extra = {"count_include_pad": draw(st.integers(0, 1))} if kind == "AveragePool" else {}
    b.blocks.append(f"{kind} k{kernel} s{stride} p{pad}")
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, **extra}
    return b.node(kind, [x], (1, channels, *out), **attributes)


def resize(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Upsampling by two, nearest or linear, in the form of the graph's opset."""
    _, channels, height, width = b.shapes[x]
    if height * width > 400:
        return x
    shape = (1, channels, height * 2, width * 2)
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    mode = draw(st.sampled_from(("nearest", "linear")))
    b.blocks.append(f"resize {mode}")
    if b.opset < 11:
        return b.node("Resize", [x, scales], shape, mode="nearest")
    roi = b.constant("roi", np.zeros(0, np.float32)) if b.opset < 13 else ""
    if mode == "nearest":
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        attributes = {"coordinate_transformation_mode": "half_pixel"}
    return b.node("Resize", [x, roi, scales], shape, mode=mode, **attributes)


def conv_transpose(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Transposed convolution with stride two."""
    _, channels, height, width = b.shapes[x]
    if height * width > 400:
        return x
    kernel, out_channels = draw(st.sampled_from(((2, 4), (4, 3), (3, 2))))
    pad = (kernel - 1) // 2
    out = tuple((size - 1) * 2 - 2 * pad + kernel for size in (height, width))
    weight = b.constant("w", b.weights((channels, out_channels, kernel, kernel), channel_axis=1))
    b.blocks.append(f"conv transpose k{kernel}")
    return b.node(
        "ConvTranspose",
        [x, weight, b.constant("b", b.bias(out_channels))],
        (1, out_channels, *out),
        kernel_shape=[kernel] * 2,
        strides=[2, 2],
        pads=[pad] * 4,
    )


def squeeze_excite(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Global average, gate, and a broadcast product."""
    _, channels, _, _ = b.shapes[x]
    pooled = b.node("GlobalAveragePool", [x], (1, channels, 1, 1))
    gate = b.node("Sigmoid", [same_conv(b, pooled, channels, 1)], (1, channels, 1, 1))
    b.blocks.append("squeeze-excite")
    return b.node("Mul", [x, gate], b.shapes[x])


BLOCKS = (conv, batch_norm, activation, residual, concat, pool, resize, conv_transpose, squeeze_excite)


def classifier_tail(b: GraphBuilder, draw: Draw, x: str) -> str:
    """Global pooling, Flatten, Gemm, sometimes Softmax."""
    channels, classes = b.shapes[x][1], draw(st.integers(1, 10))
    flat = b.node("Flatten", [b.node("GlobalAveragePool", [x], (1, channels, 1, 1))], (1, channels), axis=1)
    weight = b.constant("gw", b.weights((classes, channels)))
    y = b.node("Gemm", [flat, weight, b.constant("gb", b.bias(classes))], (1, classes), transB=1)
    b.blocks.append("classifier")
    return b.node("Softmax", [y], (1, classes), axis=1) if draw(st.booleans()) else y


def reshape_tail(b: GraphBuilder, draw: Draw, x: str) -> str:
    """A last convolution reshaped to (1, channels, positions), as detectors end."""
    y = same_conv(b, x, draw(st.integers(1, 8)), 1)
    _, channels, height, width = b.shapes[y]
    target = b.constant("shape", np.array([1, channels, height * width], np.int64))
    b.blocks.append("reshape tail")
    return b.node("Reshape", [y, target], (1, channels, height * width))


def conv_tail(b: GraphBuilder, draw: Draw, x: str) -> str:
    """A last convolution, with or without Relu."""
    y = same_conv(b, x, draw(st.integers(1, 8)), draw(st.sampled_from((1, 3))))
    b.blocks.append("conv tail")
    return b.node("Relu", [y], b.shapes[y]) if draw(st.booleans()) else y


TAILS = (conv_tail, classifier_tail, reshape_tail)


def input_data(rng: np.random.Generator, style: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Feature maps of the given style."""
    data = rng.normal(0.0, 1.0, shape)
    match style:
        case "extreme":
            data *= rng.choice([1e-3, 1.0, 1e3], size=(shape[0], 1, 1, 1))
        case "zeros":
            data[...] = 0.0
        case "constant":
            data[...] = 1.5
    return data.astype(np.float32)


@st.composite
def graph_cases(draw: Draw, max_blocks: int = 4, samples: int = 3, min_size: int = 4, max_size: int = 12) -> GraphCase:
    """Networks with one feature-map input."""
    builder = GraphBuilder(
        opset=draw(st.sampled_from(OPSETS)),
        seed=draw(st.integers(0, 2**16)),
        style=draw(st.sampled_from(WEIGHT_STYLES)),
    )
    shape = (1, draw(st.integers(1, 6)), draw(st.integers(min_size, max_size)), draw(st.integers(min_size, max_size)))
    builder.shapes["x"] = shape
    x = conv(builder, draw, "x")
    for block in draw(st.lists(st.sampled_from(BLOCKS), max_size=max_blocks)):
        x = block(builder, draw, x)
    output = draw(st.sampled_from(TAILS))(builder, draw, x)
    data_style = draw(st.sampled_from(INPUT_STYLES))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return GraphCase(
        model=finish(builder, shape, output),
        calibration=input_data(rng, data_style, (samples, *shape[1:])),
        samples=input_data(rng, "normal", (samples, *shape[1:])),
        blocks=(f"opset {builder.opset}", f"weights {builder.style}", f"data {data_style}", *builder.blocks),
    )


def finish(builder: GraphBuilder, shape: tuple[int, ...], output: str) -> onnx.ModelProto:
    """Close the graph over input ``x`` and output ``y``."""
    for node in builder.nodes:
        node.output[:] = ["y" if name == output else name for name in node.output]
        node.input[:] = ["y" if name == output else name for name in node.input]
    graph = helper.make_graph(
        builder.nodes,
        "generated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(builder.shapes[output]))],
        builder.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", builder.opset)], ir_version=7)
    onnx.checker.check_model(model, full_check=True)
    return model
