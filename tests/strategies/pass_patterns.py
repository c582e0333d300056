"""For every optimiser pass, a pattern that it rewrites: :data:`PATTERNS`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx_ir as ir
from hypothesis import strategies as st
from onnx import TensorProto, helper

from engine.optimize import (
    activations,
    affine,
    arithmetic,
    cleanup,
    constants,
    defaults,
    dense,
    movement,
    pooling,
    sink,
    transposes,
)
from engine.optimize.gru import UnrollGru
from engine.optimize.normalization import DecomposeNormalization
from engine.optimize.opset9 import ConvertOpset9
from engine.optimize.recurrent import UnrollLstm
from engine.optimize.shuffle import CollapseShuffle
from engine.optimize.wide import SplitWideConv
from tests.strategies.patterns import Draw, Network, Pattern

Map = tuple[int, int, int, int]


def feature_map(draw: Draw, net: Network, low: int = 1, high: int = 8) -> tuple[str, Map]:
    """An input of rank 4 and its shape; sides from ``low`` to ``high``, sometimes behind an activation."""
    shape = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 6)),
        draw(st.integers(low, high)),
        draw(st.integers(low, high)),
    )
    return activated(draw, net, net.input(*shape)), shape


def activated(draw: Draw, net: Network, x: str) -> str:
    op_type = draw(st.sampled_from(("", "Relu", "Tanh")))
    return net.op(op_type, x) if op_type else x


def convertible(draw: Draw, net: Network) -> str:
    """What opset 9 writes as attributes."""
    x = net.input(1, 3, 6, 8)
    match draw(st.sampled_from(("Slice", "Upsample", "TopK"))):
        case "Slice":
            return net.op("Slice", x, starts=[draw(st.integers(0, 2))], ends=[draw(st.integers(3, 9))], axes=[2])
        case "Upsample":
            return net.op("Upsample", x, net.constant([1, 1, 2, 3]), mode=draw(st.sampled_from(("nearest", "linear"))))
        case _:
            return net.op("TopK", x, k=draw(st.integers(1, 3)), axis=1, outputs=2)


def lifted(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net)
    shape = draw(st.sampled_from(((), (1,), (channels, 1, 1))))
    values = net.rng.normal(size=shape).astype(np.float32)
    tensor = helper.make_tensor("value", TensorProto.FLOAT, shape, values.reshape(-1))
    return net.op(draw(st.sampled_from(("Add", "Mul"))), x, net.op("Constant", value=tensor))


def foldable(draw: Draw, net: Network) -> str:
    """A constant map, computed from a shape or from constants."""
    x, (batch, channels, height, width) = feature_map(draw, net)
    if draw(st.booleans()):
        other = net.op("ConstantOfShape", net.op("Shape", x))
    else:
        other = net.op("Exp", net.op("Sub", net.normal(batch, channels, height, 1), net.normal(width)))
    return net.op("Max", x, other)


def given_away(draw: Draw, net: Network) -> str:
    """A constant that is an output, read by a node or not."""
    x, (_, channels, height, width) = feature_map(draw, net)
    net.outputs.append(net.normal(channels, height, width))
    return net.op("Add", x, net.outputs[0]) if draw(st.booleans()) else net.op("Cos", x)


def dead(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    net.op("Exp", net.op("Sin", x))
    return net.op("Cos", x)


def incomplete(draw: Draw, net: Network) -> str:
    """Convolutions and pools that leave defaults out, or let the operator choose its pads."""
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    mode = draw(st.sampled_from(("", "SAME_UPPER", "SAME_LOWER", "VALID")))
    attributes = {"auto_pad": mode} if mode else {}
    kernel = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
    if draw(st.booleans()):  # ONNX Runtime cannot pad for a window that is smaller than its stride
        attributes["strides"] = [draw(st.integers(1, side)) for side in kernel]
    match draw(st.sampled_from(("Conv", "MaxPool", "ConvTranspose"))):
        case "Conv":
            return net.op("Conv", x, net.normal(4, channels, *kernel), **attributes)
        case "MaxPool":
            return net.op("MaxPool", x, kernel_shape=kernel, **attributes)
        case _:
            return net.op("ConvTranspose", x, net.normal(channels, 4, *kernel))


def without_effect(draw: Draw, net: Network) -> str:
    x, shape = feature_map(draw, net)
    match draw(
        st.sampled_from(("Identity", "Cast", "Reshape", "Transpose", "Concat", "Sum", "Expand", "Gather", "Pad"))
    ):
        case "Cast":
            y = net.op("Cast", x, to=TensorProto.FLOAT)
        case "Reshape" | "Expand" as op_type:
            y = net.op(op_type, x, net.ints(*shape))
        case "Transpose":
            y = net.op("Transpose", x, perm=[0, 1, 2, 3])
        case "Concat":
            y = net.op("Concat", x, axis=1)
        case "Gather":
            y = net.op("Gather", x, net.ints(*range(shape[1])), axis=1)
        case "Pad":
            y = net.op("Pad", x, net.ints(*[0] * 8))
        case op_type:
            y = net.op(op_type, x)
    return net.op("Sigmoid", y)


def cast_there_and_back(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    flags = net.op("Greater", x, net.constant(0.0))
    wide = net.op("Cast", flags, to=draw(st.sampled_from((TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64))))
    return net.op("Cast", net.op("Cast", wide, to=TensorProto.BOOL), to=TensorProto.FLOAT)


def commuted(draw: Draw, net: Network, op_type: str, a: str, b: str) -> str:
    return net.op(op_type, *((a, b) if draw(st.booleans()) else (b, a)))


def written_activation(draw: Draw, net: Network) -> str:
    """Swish, Mish, HardSwish or Gelu as exporters write them."""
    x, _ = feature_map(draw, net)
    match draw(st.sampled_from(("Swish", "Mish", "HardSwish", "Gelu"))):
        case "Swish":
            return commuted(draw, net, "Mul", x, net.op("Sigmoid", x))
        case "Mish":
            return commuted(draw, net, "Mul", x, net.op("Tanh", net.op("Softplus", x)))
        case "HardSwish":
            gate = net.clip(commuted(draw, net, "Add", x, net.constant(3.0)), 0.0, 6.0)
            if draw(st.booleans()):
                return net.op("Div", commuted(draw, net, "Mul", x, gate), net.constant(6.0))
            return commuted(draw, net, "Mul", x, commuted(draw, net, "Mul", gate, net.constant(1 / 6)))
        case _:
            erf = net.op("Erf", net.op("Div", x, net.constant(math.sqrt(2))))
            gate = commuted(draw, net, "Add", erf, net.constant(1.0))
            if draw(st.booleans()):
                return commuted(draw, net, "Mul", commuted(draw, net, "Mul", x, net.constant(0.5)), gate)
            return commuted(draw, net, "Mul", commuted(draw, net, "Mul", x, gate), net.constant(0.5))


def gated_by_hard_sigmoid(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    return commuted(draw, net, "Mul", x, net.op("HardSigmoid", x, alpha=1 / 6))


def own_activation(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    return net.op("Mish" if net.opset >= 18 and draw(st.booleans()) else "HardSwish", x)


def reshaping(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    match draw(st.sampled_from(("Flatten", "Squeeze", "Unsqueeze"))):
        case "Flatten":
            return net.op("Flatten", x, axis=draw(st.integers(0, 3)))
        case "Squeeze":
            kept = net.mean(x, 2)
            return net.op("Squeeze", kept, axes=[2]) if net.opset < 13 else net.op("Squeeze", kept, net.ints(2))
        case _:
            axis = draw(st.integers(0, 4))
            return net.op("Unsqueeze", x, axes=[axis]) if net.opset < 13 else net.op("Unsqueeze", x, net.ints(axis))


def shuffled(draw: Draw, net: Network) -> str:
    """Channel shuffle or space-to-depth."""
    a, b, height, width = (draw(st.integers(2, 4)) for _ in range(4))
    if draw(st.booleans()):
        x = activated(draw, net, net.input(1, a * b, height, width))
        inner, perm, outer = (1, a, b, height, width), [0, 2, 1, 3, 4], (1, a * b, height, width)
    else:
        x = activated(draw, net, net.input(1, a, height * b, width * b))
        inner, perm, outer = (1, a, height, b, width, b), [0, 3, 5, 1, 2, 4], (1, a * b * b, height, width)
    moved = net.op("Transpose", net.op("Reshape", x, net.ints(*inner)), perm=perm)
    return net.op("Reshape", moved, net.ints(*outer))


def reshaped_twice(draw: Draw, net: Network) -> str:
    x, (batch, channels, height, width) = feature_map(draw, net)
    first = net.op("Reshape", x, net.ints(*draw(st.sampled_from(((batch, channels, -1), (-1,), (0, 0, -1, 1))))))
    last = draw(st.sampled_from(((batch, -1), (channels * height, width * batch), (width, 1, -1))))
    return net.op("Reshape", first, net.ints(*last))


def transposed_twice(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    orders = st.permutations(range(4))
    return net.op("Transpose", net.op("Transpose", x, perm=draw(orders)), perm=draw(orders))


def transposed_operands(draw: Draw, net: Network) -> str:
    """Arithmetic on a transposed map, with constants that broadcast, a second map, or a mean."""
    x, shape = feature_map(draw, net)
    order = draw(st.permutations(range(4)))
    sizes = [shape[axis] for axis in order]
    inside = net.op("Transpose", x, perm=order)
    op_type = draw(st.sampled_from(("Add", "Sub", "Max")))
    match draw(st.sampled_from(("alone", "constant", "map", "mean"))):
        case "alone":
            return net.op(draw(st.sampled_from(("Relu", "Sigmoid", "Tanh"))), inside)
        case "constant":
            kept = [draw(st.sampled_from((1, size))) for size in sizes][draw(st.integers(0, 4)) :]
            return commuted(draw, net, op_type, inside, net.normal(*kept))
        case "map":
            return commuted(draw, net, "Mul", inside, net.op("Transpose", net.input(*shape), perm=order))
        case _:
            axes = draw(st.lists(st.integers(-4, 3), min_size=1, max_size=2, unique_by=lambda axis: axis % 4))
            return net.op("Sub", inside, net.mean(inside, *axes))


def moved_single_axes(draw: Draw, net: Network) -> str:
    """A transpose of a map of one row or one channel, and a reshape."""
    batch, width = draw(st.integers(1, 2)), draw(st.integers(2, 5))
    x = activated(draw, net, net.input(batch, 1, 1, width))
    turned = net.op("Transpose", x, perm=draw(st.sampled_from(([0, 3, 1, 2], [0, 2, 1, 3], [0, 3, 2, 1]))))
    return net.op("Reshape", turned, net.ints(batch, width))


def reshaped_single_axes(draw: Draw, net: Network) -> str:
    windows, rows, features = (draw(st.integers(2, 5)) for _ in range(3))
    x = activated(draw, net, net.input(windows, 1, rows, features))
    moved = net.op("Reshape", x, net.ints(1, windows, rows, features))
    return net.op("Transpose", moved, perm=[0, *draw(st.permutations((1, 2, 3)))])


def rows_there_and_back(draw: Draw, net: Network) -> str:
    batch, channels, rows = (draw(st.integers(1, 4)) for _ in range(3))
    x = activated(draw, net, net.input(batch, channels, rows))
    turned = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1]), net.ints(batch, 1, rows, channels))
    return net.op("Transpose", turned, perm=[0, 3, 1, 2])


def moved_twice_alike(draw: Draw, net: Network) -> str:
    """Two equal movements of an activation, each read by itself."""
    x, (batch, channels, height, width) = feature_map(draw, net)
    x = net.op("Sigmoid", x)
    order = draw(st.permutations(range(4)))
    flat = draw(st.booleans())
    shape = net.ints(batch, channels * height, width)
    moved = [net.op("Reshape", x, shape) if flat else net.op("Transpose", x, perm=order) for _ in range(2)]
    return net.op("Add", net.op("Softmax", moved[0], axis=1), net.op("Softmax", moved[1], axis=1))


def padded_convolution(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    before, after = ([draw(st.integers(0, 2)), draw(st.integers(0, 2))] for _ in range(2))
    padded = net.op("Pad", x, net.ints(0, 0, *before, 0, 0, *after))
    pads = [draw(st.integers(0, 1)) for _ in range(4)]
    return net.conv(padded, channels, draw(st.integers(1, 4)), kernel=draw(st.integers(1, 3)), pads=pads)


def affine_operator(draw: Draw, net: Network, x: str, channels: int) -> str:
    """A batch normalisation, or arithmetic with a constant per tensor or channel on either side."""
    op_type = draw(st.sampled_from(("BatchNormalization", "Add", "Sub", "Mul", "Div")))
    if op_type == "BatchNormalization":
        return net.op(op_type, x, *(net.positive(channels) for _ in range(4)))
    operand = net.positive(*draw(st.sampled_from(((), (1,), (channels, 1, 1), (1, channels, 1, 1)))))
    return net.op(op_type, x, operand) if op_type == "Div" else commuted(draw, net, op_type, x, operand)


def convolution_then_affine(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    filters = draw(st.integers(1, 3)) * channels
    if draw(st.booleans()):
        group = draw(st.sampled_from((1, channels)))
        return affine_operator(draw, net, net.conv(x, channels, filters, group=group), filters)
    return affine_operator(draw, net, net.op("ConvTranspose", x, net.normal(channels, filters, 2, 2)), filters)


def affine_then_convolution(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    group = draw(st.sampled_from((1, channels)))
    return net.conv(affine_operator(draw, net, x, channels), channels, 2 * channels, group=group)


def lone_affine(draw: Draw, net: Network) -> str:
    channels = draw(st.integers(1, 5))
    x = activated(draw, net, net.input(1, channels, draw(st.integers(1, 8)), draw(st.integers(1, 8))))
    return net.op("Sigmoid", affine_operator(draw, net, x, channels))


def long_sum(draw: Draw, net: Network) -> str:
    x, shape = feature_map(draw, net)
    return net.op("Sum", x, *(net.input(*shape) for _ in range(draw(st.integers(1, 3)))))


def unexpanded(draw: Draw, net: Network) -> str:
    """A sum or product with a constant of fewer dimensions."""
    x, (_, _, _, width) = feature_map(draw, net)
    return net.op(draw(st.sampled_from(("Add", "Mul", "Sub"))), x, net.normal(width))


def quotient(draw: Draw, net: Network) -> str:
    x, (_, channels, height, _) = feature_map(draw, net)
    match draw(st.sampled_from(("constant", "computed", "one"))):
        case "constant":
            return net.op("Div", x, net.positive(height, 1))
        case "computed":
            divisor = net.op("Exp", net.input(channels, 1, 1))
            return net.op("Div", x, divisor)
        case _:
            return net.op("Div", net.constant(1.0), net.op("Exp", x))


def choice(draw: Draw, net: Network) -> str:
    x, shape = feature_map(draw, net)
    other = draw(st.sampled_from((net.normal(*shape[1:]), net.constant(-2.5), net.input(*shape))))
    if draw(st.booleans()):
        condition = net.constant(net.rng.random(shape) > 0.5, np.bool_)
    else:
        condition = net.op("Greater", net.input(*shape[1:]), net.constant(0.0))
    return net.op("Where", condition, *draw(st.permutations((x, other))))


def reciprocal_root(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    inside = net.op("Mul", x, x)
    inside = commuted(draw, net, "Add", inside, net.constant(draw(st.sampled_from((1e-3, 1.0)))))
    return net.op("Reciprocal", net.op("Sqrt", inside))


def softmax_over_channels(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    swapped = net.op("Transpose", x, perm=[0, 3, 2, 1])
    return net.op("Transpose", net.op("Softmax", swapped, axis=3), perm=[0, 3, 2, 1])


def normalised(draw: Draw, net: Network) -> str:
    x, (_, channels, height, width) = feature_map(draw, net, low=2)
    if net.opset < 17 or draw(st.booleans()):
        return net.op("InstanceNormalization", x, net.normal(channels), net.normal(channels))
    axis, shape = draw(st.sampled_from(((-1, (width,)), (2, (height, width)), (1, (channels, height, width)))))
    parameters = [net.normal(*shape), net.normal(*shape)][: draw(st.integers(1, 2))]
    return net.op("LayerNormalization", x, *parameters, axis=axis, epsilon=1e-3)


def map_mean(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    return net.mean(x, *draw(st.sampled_from(((2, 3), (3, 2), (-2, -1)))), keepdims=draw(st.integers(0, 1)))


def dropped_axis(draw: Draw, net: Network) -> str:
    x, shape = feature_map(draw, net)
    axis = draw(st.integers(0, 3))
    match draw(st.sampled_from(("mean", "max", "Gather", "ArgMax"))):
        case "mean":
            return net.mean(x, axis, keepdims=0)
        case "max":
            if net.opset < 18:
                return net.op("ReduceMax", x, axes=[axis], keepdims=0)
            return net.op("ReduceMax", x, net.ints(axis), keepdims=0)
        case "Gather":
            return net.op("Gather", x, net.constant(draw(st.integers(0, shape[axis] - 1)), np.int64), axis=axis)
        case _:
            return net.op("Cast", net.op("ArgMax", x, axis=1, keepdims=0), to=TensorProto.FLOAT)


def pooled_row(draw: Draw, net: Network) -> str:
    x = activated(draw, net, net.input(draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(4, 9))))
    pads = [draw(st.integers(0, 1)), draw(st.integers(0, 1))]
    size, stride = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    return net.op("AveragePool", x, kernel_shape=[size], strides=[stride], pads=pads, count_include_pad=1)


def pooled_map(draw: Draw, net: Network) -> str:
    size = draw(st.sampled_from((1, 2, 3, 7, 8, 12)))
    x = activated(draw, net, net.input(1, draw(st.integers(1, 4)), size * draw(st.integers(1, 2)), size))
    match draw(st.sampled_from(("tiles", "overlaps", "map"))):
        case "tiles":
            return net.op("AveragePool", x, kernel_shape=[size, size], strides=[size, size])
        case "overlaps":
            size, pad = min(size, 3), draw(st.integers(0, 1)) if size > 1 else 0
            return net.op("AveragePool", x, kernel_shape=[size, size], pads=[pad] * 4, count_include_pad=1)
        case _:
            return net.op("GlobalAveragePool", x)


def gemm(draw: Draw, net: Network, x: str, features: int) -> str:
    outputs, transposed = draw(st.integers(1, 5)), draw(st.integers(0, 1))
    weight = net.normal(outputs, features) if transposed else net.normal(features, outputs)
    scales = {"alpha": draw(st.sampled_from((1.0, 0.5))), "beta": draw(st.sampled_from((1.0, 2.0)))}
    return net.op("Gemm", x, weight, net.normal(outputs), transB=transposed, **scales)


def gemm_of_map(draw: Draw, net: Network) -> str:
    source, (_, channels, height, width) = feature_map(draw, net, high=7)
    features = channels * height * width
    return gemm(draw, net, net.op("Reshape", source, net.ints(-1, features)), features)


def gemm_of_rows(draw: Draw, net: Network) -> str:
    features = draw(st.integers(1, 8))
    return gemm(draw, net, activated(draw, net, net.input(draw(st.integers(1, 3)), features)), features)


def matmul_by_matrix(draw: Draw, net: Network) -> str:
    """A product of rank 2 to 5 with a matrix, sometimes with a bias."""
    shape = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(2, 5)))]
    outputs = draw(st.integers(1, 5))
    product = net.op("MatMul", activated(draw, net, net.input(*shape)), net.normal(shape[-1], outputs))
    return net.op("Add", product, net.normal(outputs)) if draw(st.booleans()) else product


def scaled_rows_of_product(draw: Draw, net: Network) -> str:
    """Scale and shift in front of the convolution that a product became."""
    batch, rows, features = (draw(st.integers(1, 4)) for _ in range(3))
    x = activated(draw, net, net.input(batch, rows, features))
    for op_type in draw(st.lists(st.sampled_from(("Mul", "Add", "Sub")), min_size=1, max_size=3)):
        x = net.op(op_type, x, net.normal(*draw(st.sampled_from(((), (1,), (features,), (1, 1, features))))))
    line = net.op("Reshape", x, net.ints(1, batch, rows, features))
    turned = net.op("Transpose", line, perm=[0, 3, 1, 2])
    result = net.conv(turned, features, draw(st.integers(1, 4)), kernel=1)
    net.nodes[-1].metadata_props.add(key=dense.MARK_PRODUCT, value="matmul")
    return result


def reshaped_operands(draw: Draw, net: Network) -> str:
    """Arithmetic on a map without its rows, with another one, a constant or a mean over the channels."""
    x, (batch, channels, height, width) = feature_map(draw, net)
    shape = net.ints(batch, channels, height * width)
    rows = net.op("Reshape", x, shape)
    op_type = draw(st.sampled_from(("Add", "Sub", "Mul")))
    match draw(st.sampled_from(("alone", "constant", "map", "mean"))):
        case "alone":
            return net.op(draw(st.sampled_from(("Sigmoid", "Reciprocal"))), net.op("Reshape", net.op("Exp", x), shape))
        case "constant":
            sizes = ((), (1,), (channels, 1), (batch, channels, height * width))
            return commuted(draw, net, op_type, rows, net.normal(*draw(st.sampled_from(sizes))))
        case "mean":
            return net.op("Sub", rows, net.mean(rows, 1))
        case _:
            other = net.op("Reshape", net.input(batch, channels, height, width), shape)
            return commuted(draw, net, op_type, rows, other)


def wide_convolution(draw: Draw, net: Network) -> str:
    channels = draw(st.sampled_from((2049, 2100, 4096)))
    strides = [draw(st.integers(1, 2)), draw(st.integers(1, 2))]
    return net.conv(net.input(1, channels, 2, 3), channels, draw(st.integers(1, 3)), kernel=1, strides=strides)


def recurrent_cell(draw: Draw, net: Network) -> str:
    """An LSTM over a few steps: its hidden states, or the last one."""
    steps, batch, features, hidden = (draw(st.integers(1, high)) for high in (4, 2, 4, 4))
    x = activated(draw, net, net.input(steps, batch, features))
    weights = [net.normal(1, 4 * hidden, features), net.normal(1, 4 * hidden, hidden)]
    if draw(st.booleans()):
        weights.append(net.normal(1, 8 * hidden))
    if draw(st.booleans()):
        return net.op("LSTM", x, *weights, hidden_size=hidden)
    states = net.op("LSTM", x, *weights, hidden_size=hidden, outputs=3)
    return net.op("Concat", f"{states}_1", f"{states}_2", axis=0)


def gated_cell(draw: Draw, net: Network) -> str:
    """A GRU over a few steps: its hidden states, or the last one."""
    steps, batch, features, hidden = (draw(st.integers(1, high)) for high in (4, 2, 4, 4))
    x = activated(draw, net, net.input(steps, batch, features))
    weights = [net.normal(1, 3 * hidden, features), net.normal(1, 3 * hidden, hidden)]
    if draw(st.booleans()):
        weights.append(net.normal(1, 6 * hidden))
    if draw(st.booleans()):
        return net.op("GRU", x, *weights, hidden_size=hidden, linear_before_reset=1)
    return f"{net.op('GRU', x, *weights, hidden_size=hidden, linear_before_reset=1, outputs=2)}_1"


def joined_states(draw: Draw, net: Network) -> str:
    """States that are joined along the batch and reshaped to be rows."""
    width, count = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    states = [activated(draw, net, net.input(1, 1, 1, width)) for _ in range(count)]
    joined = net.op("Concat", *states, axis=0)
    return net.op("Reshape", joined, net.ints(1, count, 1, width))


PATTERNS: Mapping[type[ir.passes.PassBase], Pattern] = MappingProxyType(
    {
        ConvertOpset9: Pattern(convertible, (9,)),
        constants.LiftConstants: Pattern(lifted),
        constants.FoldConstants: Pattern(foldable),
        constants.ConstantOutputs: Pattern(given_away),
        cleanup.RemoveUnusedNodes: Pattern(dead),
        defaults.CompleteAttributes: Pattern(incomplete),
        cleanup.RemoveNoOps: Pattern(without_effect),
        cleanup.RemoveCastPairs: Pattern(cast_there_and_back),
        activations.CollapseActivations: Pattern(written_activation),
        activations.HardSigmoidToHardSwish: Pattern(gated_by_hard_sigmoid),
        activations.StandardActivations: Pattern(own_activation, (14, 17, 18)),
        cleanup.ReshapingToReshape: Pattern(reshaping),
        CollapseShuffle: Pattern(shuffled),
        cleanup.MergeReshapes: Pattern(reshaped_twice),
        cleanup.MergeTransposes: Pattern(transposed_twice),
        affine.FoldPadIntoConv: Pattern(padded_convolution),
        affine.FoldAffineIntoPrevious: Pattern(convolution_then_affine),
        affine.FoldAffineIntoNext: Pattern(affine_then_convolution),
        affine.AffineToDepthwise: Pattern(lone_affine),
        arithmetic.SumToAdd: Pattern(long_sum),
        arithmetic.DivToReciprocal: Pattern(quotient),
        arithmetic.ExpandConstants: Pattern(unexpanded),
        arithmetic.WhereToProducts: Pattern(choice),
        activations.CollapseRsqrt: Pattern(reciprocal_root),
        activations.CollapseSoftmax: Pattern(softmax_over_channels),
        DecomposeNormalization: Pattern(normalised),
        UnrollLstm: Pattern(recurrent_cell),
        UnrollGru: Pattern(gated_cell),
        movement.JoinAlongReshapedAxis: Pattern(joined_states),
        pooling.ReduceMeanToGlobalPool: Pattern(map_mean),
        movement.KeepReducedAxis: Pattern(dropped_axis),
        pooling.AveragePool1d: Pattern(pooled_row),
        pooling.AveragePoolToConv: Pattern(pooled_map),
        dense.GemmOfMapToConv: Pattern(gemm_of_map),
        dense.MatMulToConv: Pattern(matmul_by_matrix),
        dense.FoldAffineIntoProduct: Pattern(scaled_rows_of_product),
        dense.GemmToConv: Pattern(gemm_of_rows),
        sink.SinkReshape: Pattern(reshaped_operands),
        sink.SinkTranspose: Pattern(transposed_operands),
        transposes.TransposeToReshape: Pattern(moved_single_axes),
        transposes.AbsorbReshapeIntoTranspose: Pattern(reshaped_single_axes),
        transposes.CancelAroundReshape: Pattern(rows_there_and_back),
        transposes.ShareMovements: Pattern(moved_twice_alike),
        SplitWideConv: Pattern(wide_convolution),
    }
)
"""A pattern per pass: the pass finds it on at least one march, unless another node reads a tensor inside."""
