"""Layers that become other layers: pools, dense layers, wide convolutions, cells over a sequence."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.optimize import dense
from tests.strategies.pass_patterns.pieces import activated, feature_map
from tests.strategies.patterns import Draw, Network


def map_mean(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    return net.mean(x, *draw(st.sampled_from(((2, 3), (-2, -1)))), keepdims=draw(st.integers(0, 1)))


def pooled_row(draw: Draw, net: Network) -> str:
    x = activated(draw, net, net.input(draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(4, 9))))
    pads = [draw(st.integers(0, 1)), draw(st.integers(0, 1))]
    size, stride = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    if draw(st.booleans()):
        return net.op("MaxPool", x, kernel_shape=[size], strides=[stride], pads=pads)
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
    source, (_, channels, height, width) = feature_map(draw, net, low=2, high=7)
    features = channels * height * width
    return gemm(draw, net, net.op("Reshape", source, net.ints(-1, features)), features)


def convolution_of_joined_axes(draw: Draw, net: Network) -> str:
    """A 1x1 convolution of the rows of a map, or of all its pixels, as channels; there are several of each."""
    source, (batch, channels, height, width) = feature_map(draw, net, low=2, high=7)
    shape = draw(st.sampled_from(((channels * height, 1, width), (channels * height * width, 1, 1))))
    joined = net.op("Reshape", source, net.ints(batch, *shape))
    return net.op("Conv", joined, net.normal(draw(st.integers(1, 4)), shape[0], 1, 1))


def gemm_of_rows(draw: Draw, net: Network) -> str:
    features = draw(st.integers(1, 8))
    return gemm(draw, net, activated(draw, net, net.input(draw(st.integers(1, 3)), features)), features)


def matmul_by_one_of_one(draw: Draw, net: Network) -> str:
    """A product of one matrix by a constant one, both of three or four dimensions."""
    rows, inner, columns = (draw(st.integers(1, 6)) for _ in range(3))
    ones = (1,) * draw(st.integers(1, 2))
    x = activated(draw, net, net.input(*ones, rows, inner))
    return net.op("MatMul", x, net.normal(*ones, inner, columns))


def matmul_by_matrix(draw: Draw, net: Network) -> str:
    """A product of rank 2 to 4 with a matrix, sometimes with a bias."""
    shape = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(2, 4)))]
    outputs = draw(st.integers(1, 5))
    product = net.op("MatMul", activated(draw, net, net.input(*shape)), net.normal(shape[-1], outputs))
    return net.op("Add", product, net.normal(outputs)) if draw(st.booleans()) else product


def constant_by_matrix(draw: Draw, net: Network) -> str:
    """A constant matrix by a computed one, of three or four dimensions."""
    lead = (1,) * draw(st.integers(1, 2))
    rows, inner, columns = (draw(st.integers(1, 5)) for _ in range(3))
    return net.op("MatMul", net.normal(*lead, rows, inner), activated(draw, net, net.input(*lead, inner, columns)))


def scaled_rows_of_product(draw: Draw, net: Network) -> str:
    """Scale and shift in front of the convolution that a product became; no other axis has the features' size."""
    batch, rows = (draw(st.integers(1, 4)) for _ in range(2))
    features = draw(st.sampled_from([count for count in range(2, 6) if count not in (batch, rows)]))
    x = activated(draw, net, net.input(batch, rows, features))
    for op_type in draw(st.lists(st.sampled_from(("Mul", "Add", "Sub")), min_size=1, max_size=3)):
        x = net.op(op_type, x, net.normal(*draw(st.sampled_from(((features,), (1, 1, features))))))
    line = net.op("Reshape", x, net.ints(1, batch, rows, features))
    turned = net.op("Transpose", line, perm=[0, 3, 1, 2])
    result = net.conv(turned, features, draw(st.integers(1, 4)), kernel=1)
    net.nodes[-1].metadata_props.add(key=dense.MARK_PRODUCT, value="matmul")
    return result


def twice_the_same_convolution(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net)
    weight = net.normal(channels, channels, 1, 1)
    return net.op("Conv", net.op("Conv", x, weight), weight)


def wide_convolution(draw: Draw, net: Network) -> str:
    channels = draw(st.sampled_from((2049, 2100, 4096)))
    strides = [draw(st.integers(1, 2)), draw(st.integers(1, 2))]
    return net.conv(net.input(1, channels, 2, 3), channels, draw(st.integers(1, 3)), kernel=1, strides=strides)


def cell(draw: Draw, net: Network, gates: int) -> tuple[str, list[str], int]:
    """A sequence of a few steps, the weights of a cell, and the size of its hidden state."""
    steps, batch, features, hidden = (draw(st.integers(1, high)) for high in (4, 2, 4, 4))
    x = activated(draw, net, net.input(steps, batch, features))
    weights = [net.normal(1, gates * hidden, features), net.normal(1, gates * hidden, hidden)]
    if draw(st.booleans()):
        weights.append(net.normal(1, 2 * gates * hidden))
    return x, weights, hidden


def recurrent_cell(draw: Draw, net: Network) -> str:
    """An LSTM over a few steps: its hidden states, or the last one."""
    x, weights, hidden = cell(draw, net, 4)
    if draw(st.booleans()):
        return net.op("LSTM", x, *weights, hidden_size=hidden)
    states = net.op("LSTM", x, *weights, hidden_size=hidden, outputs=3)
    return net.op("Concat", f"{states}_1", f"{states}_2", axis=0)


def gated_cell(draw: Draw, net: Network) -> str:
    """A GRU over a few steps: its hidden states, or the last one."""
    x, weights, hidden = cell(draw, net, 3)
    reset = draw(st.integers(0, 1))
    if draw(st.booleans()):
        return net.op("GRU", x, *weights, hidden_size=hidden, linear_before_reset=reset)
    return f"{net.op('GRU', x, *weights, hidden_size=hidden, linear_before_reset=reset, outputs=2)}_1"
