"""Movements of data, and arithmetic on what was moved."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto

from tests.strategies.pass_patterns.pieces import activated, commuted, feature_map
from tests.strategies.patterns import Draw, Network


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


def reshaped_with_zeros(draw: Draw, net: Network) -> str:
    """A target whose first sizes, some or all, are those before."""
    x, (batch, channels, _, _) = feature_map(draw, net, low=2)
    first = draw(st.sampled_from(((0, 0), (0, channels), (batch, 0))))
    return net.op("Sigmoid", net.op("Reshape", x, net.ints(*first, -1)))


def transposed_twice(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    orders = st.permutations(range(4))
    return net.op("Transpose", net.op("Transpose", x, perm=draw(orders)), perm=draw(orders))


def transposed_operands(draw: Draw, net: Network) -> str:
    """Arithmetic on a transposed map, with constants that broadcast, a second map, or a mean over one axis."""
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
            return net.op("Sub", inside, net.mean(inside, draw(st.integers(-4, 3))))


def reshaped_operands(draw: Draw, net: Network) -> str:
    """Arithmetic on a map without its rows, with another one, a constant or a mean over the channels."""
    batch, channels, width = (draw(st.integers(1, most)) for most in (2, 6, 8))
    height = draw(st.sampled_from((7, 8)))  # a size that the rows have nowhere, by which what is joined is found
    x = activated(draw, net, net.input(batch, channels, height, width))
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


def exchanged_steps(draw: Draw, net: Network) -> str:
    """The steps of a sequence that a Transpose brings in front."""
    steps, features = (draw(st.integers(2, 4)) for _ in range(2))
    x = activated(draw, net, net.input(1, steps, features))
    turned, sizes = net.op("Transpose", x, perm=[1, 0, 2]), [1] * steps
    if net.opset < 13:
        first = net.op("Split", turned, outputs=steps, axis=0, split=sizes)
    else:
        first = net.op("Split", turned, net.ints(*sizes), outputs=steps, axis=0)
    others = [f"{first}_{index}" for index in range(1, steps)]
    return net.op("Concat", *(net.op("Sigmoid", each) for each in (first, *others)), axis=draw(st.integers(0, 2)))


def moved_twice_alike(draw: Draw, net: Network) -> str:
    """Two equal movements of an activation, each read by itself."""
    x, (batch, channels, height, width) = feature_map(draw, net)
    x = net.op("Sigmoid", x)
    order = draw(st.permutations(range(4)))
    flat = draw(st.booleans())
    shape = net.ints(batch, channels * height, width)
    moved = [net.op("Reshape", x, shape) if flat else net.op("Transpose", x, perm=order) for _ in range(2)]
    return net.op("Add", net.op("Softmax", moved[0], axis=1), net.op("Softmax", moved[1], axis=1))


def joined_states(draw: Draw, net: Network) -> str:
    """States that are joined along the batch and reshaped to be rows."""
    width, count = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    states = [activated(draw, net, net.input(1, 1, 1, width)) for _ in range(count)]
    joined = net.op("Concat", *states, axis=0)
    return net.op("Reshape", joined, net.ints(1, count, 1, width))


def joined_rows(draw: Draw, net: Network) -> str:
    """Rows that each drop an axis and are joined, as the mean and the maximum of tokens."""
    rows, width = draw(st.integers(2, 3)), draw(st.integers(2, 5))
    parts = [activated(draw, net, net.input(rows, 1, width)) for _ in range(draw(st.integers(2, 3)))]
    return net.op("Concat", *(net.op("Reshape", part, net.ints(rows, width)) for part in parts), axis=1)


def joined_transposes(draw: Draw, net: Network) -> str:
    """Maps with their channels last that are joined, as the scores of a detector."""
    x, _ = feature_map(draw, net)
    order, axis = draw(st.sampled_from(((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3)))), draw(st.integers(0, 3))
    parts = [net.op("Transpose", net.op(op_type, x), perm=order) for op_type in ("Sigmoid", "Tanh")]
    return net.op("Concat", *parts, axis=axis)


def divided_rows(draw: Draw, net: Network) -> str:
    """A map that drops an axis and is divided, as the distances of boxes."""
    parts, width = draw(st.integers(2, 3)), draw(st.integers(2, 5))
    kept = net.op("Reshape", activated(draw, net, net.input(1, 1, 2 * parts, width)), net.ints(1, 2 * parts, width))
    sizes = [2] * parts
    if net.opset < 13:
        first = net.op("Split", kept, outputs=parts, axis=1, split=sizes)
    else:
        first = net.op("Split", kept, net.ints(*sizes), outputs=parts, axis=1)
    return net.op("Concat", *(f"{first}_{index}" for index in range(1, parts)), first, axis=2)


def classes(draw: Draw, net: Network) -> str:
    """A map of one value per channel without its last axes, and the Softmax over the channels."""
    channels, kept = draw(st.integers(2, 5)), draw(st.sampled_from(((), (1,))))
    flat = net.op("Reshape", activated(draw, net, net.input(1, channels, 1, 1)), net.ints(1, channels, *kept))
    return net.op("Softmax", flat, axis=1)


def transposed_around_a_dropped_axis(draw: Draw, net: Network) -> str:
    """Transpose, Reshape that drops an axis of length 1, Transpose."""
    sizes = [*(draw(st.integers(2, 5)) for _ in range(3)), 1]
    shape, first = draw(st.permutations(sizes)), draw(st.permutations(range(4)))
    moved = net.op("Transpose", activated(draw, net, net.input(*shape)), perm=list(first))
    kept = net.op("Reshape", moved, net.ints(*(shape[axis] for axis in first if shape[axis] != 1)))
    return net.op("Transpose", kept, perm=list(draw(st.permutations(range(3)))))


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
