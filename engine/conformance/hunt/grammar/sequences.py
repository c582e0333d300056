"""Blocks over lines and vectors: recurrent layers, convolutions over time, perceptrons, five dimensions."""

from __future__ import annotations

from typing import Any

from engine.conformance.hunt.grammar.attention import TokenBlock, vit
from engine.conformance.hunt.grammar.drawing import Drawing


def lstm(net: Drawing, x: str) -> str:
    """Tokens (1, steps, width) through an LSTM of one direction or two."""
    return _recurrent(net, x, "LSTM", 4)


def gru(net: Drawing, x: str) -> str:
    """Tokens through a GRU, the reset gate applied before the product or after it."""
    return _recurrent(net, x, "GRU", 3)


def _recurrent(net: Drawing, x: str, kind: str, gates: int) -> str:
    _, steps, width = net.dims(x)
    hidden, both = net.pick(4, 8), net.chance(0.5)
    directions = 2 if both else 1
    given = net.transpose(x, 1, 0, 2)
    weights = net.normal(directions, gates * hidden, width, scale=width**-0.5)
    recurrent = net.normal(directions, gates * hidden, hidden, scale=hidden**-0.5)
    bias = net.normal(directions, 2 * gates * hidden, scale=0.1)
    more: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" and net.chance(0.8) else {}
    more |= {"direction": "bidirectional"} if both else {}
    start = [net.constant([[[0.0] * hidden]] * directions)] * (gates - 2 if kind == "LSTM" else 1)
    initial = ["", *start] if net.chance(0.5) else []
    results = 3 if kind == "LSTM" else 2
    y = net.ops(kind, results, given, weights, recurrent, bias, *initial, hidden_size=hidden, **more)[0]
    joined = both or net.chance(0.2)
    y = net.reshape(net.transpose(y, 0, 2, 1, 3), steps, 1, -1) if joined else net.op("Squeeze", y, axes=[1])
    return net.transpose(y, 1, 0, 2)


def temporal(net: Drawing, x: str) -> str:
    """A dilated convolution over time with a residual sum, as in TCN; symmetric or causal."""
    line = net.transpose(x, 0, 2, 1)
    channels, rate = net.channels(line), net.pick(1, 2, 4)
    if net.chance(0.5):
        y = net.activate(net.convolve(line, channels, 3, dilation=rate), "relu")
    else:
        weight, bias = net.normal(channels, channels, 3, scale=0.2), net.normal(channels, scale=0.1)
        sides = {"kernel_shape": [3], "strides": [1], "dilations": [rate], "pads": [2 * rate, 2 * rate]}
        y = net.op("Conv", line, weight, bias, **sides)
        y = net.activate(net.cut(y, 0, net.dims(line)[2], 2), "relu")
    return net.transpose(net.op("Relu", net.op("Add", net.convolve(y, channels), line)), 0, 2, 1)


def gated_line(net: Drawing, x: str) -> str:
    """Halves of a convolution over time, one gates the other, as in Conformer and WaveNet."""
    line = net.transpose(x, 0, 2, 1)
    channels = net.channels(line)
    one, two = net.divide(net.convolve(line, 2 * channels, bias=True), channels, channels)
    y = net.depthwise(net.op("Mul", one, net.op("Sigmoid", two)), 3)
    return net.op("Add", x, net.transpose(net.convolve(net.activate(y, "silu"), channels), 0, 2, 1))


LINE_BLOCKS: tuple[TokenBlock, ...] = (*(lstm, gru, temporal) * 2, gated_line, vit)


def line_outputs(net: Drawing, x: str) -> list[str]:
    """Classes per step (with a Softmax or none), of the last step, or of the mean."""
    match net.pick("steps", "steps", "last", "mean"):
        case "steps":
            scores = net.dense(x, 12)
            return [net.softmax(scores, 2) if net.chance(0.6) else scores]
        case "last":
            steps = net.dims(x)[1]
            return [net.dense(net.op("Squeeze", net.cut(x, steps - 1, steps, 1), axes=[1]), 5)]
        case _:
            return [net.dense(net.op("ReduceMean", x, axes=[1], keepdims=0), 5)]


def vector_network(net: Drawing, x: str) -> list[str]:
    """Dense layers of rank 2, with a residual sum or a gate, as for control and tabular data."""
    width = net.pick(16, 24)
    y = net.activate(net.dense(x, width), net.pick("relu", "tanh", "elu", "silu"))
    for _ in range(net.pick(1, 2)):
        z = net.activate(net.dense(y, width), net.pick("relu", "tanh", "sigmoid"))
        y = net.op(net.pick("Add", "Mul"), y, z) if net.chance(0.5) else z
    mean = net.dense(y, 4)
    if net.chance(0.4):
        return [net.op("Tanh", mean), net.op("Exp", net.clip(net.dense(y, 4), -5.0, 2.0))]
    return [mean]


def five_dimensions(net: Drawing, x: str) -> list[str]:
    """Frames, shape (1, frames, channels, rows, columns): convolved one by one, then joined, or reduced over frames."""
    _, frames, channels, height, width = net.dims(x)
    if net.chance(0.5):
        y = net.layer(net.reshape(x, frames, channels, height, width), 8, 3, 2)
        rows, columns = net.size(y)
        y = net.reshape(y, 1, frames, 8, rows, columns)
        y = net.op(net.pick("ReduceMean", "ReduceMax"), y, axes=[1], keepdims=0)
        return [net.convolve(y, 5, 3, bias=True)]
    y = net.reshape(x, 1, frames * channels, height, width)
    return [net.convolve(net.layer(y, 12), 4, 3, bias=True)]
