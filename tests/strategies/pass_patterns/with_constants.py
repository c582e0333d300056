"""Arithmetic with constants, alone and beside convolutions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.strategies.pass_patterns.pieces import activated, commuted, feature_map
from tests.strategies.patterns import Draw, Network


def padded_convolution(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    before, after = ([draw(st.integers(0, 2)), draw(st.integers(0, 2))] for _ in range(2))
    padded = net.op("Pad", x, net.ints(0, 0, *before, 0, 0, *after))
    pads = [draw(st.integers(0, 1)) for _ in range(4)]
    return net.conv(padded, channels, draw(st.integers(1, 4)), kernel=draw(st.integers(1, 3)), pads=pads)


FACTORS = ("BatchNormalization", "Mul", "Div")


def affine_operator(
    draw: Draw, net: Network, x: str, channels: int, types: tuple[str, ...] = (*FACTORS, "Add", "Sub")
) -> str:
    """A batch normalisation, or arithmetic with a constant per tensor or channel."""
    op_type = draw(st.sampled_from(types))
    if op_type == "BatchNormalization":
        return net.op(op_type, x, *(net.positive(channels) for _ in range(4)))
    operand = net.positive(*draw(st.sampled_from(((), (1,), (channels, 1, 1), (1, channels, 1, 1)))))
    return net.op(op_type, x, operand) if op_type in ("Div", "Sub") else commuted(draw, net, op_type, x, operand)


def convolution_then_affine(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    filters = draw(st.integers(1, 3)) * channels
    if draw(st.booleans()):
        group = draw(st.sampled_from((1, channels)))
        return affine_operator(draw, net, net.conv(x, channels, filters, group=group), filters)
    filters += filters == 1  # one filter and one number stay apart
    return affine_operator(draw, net, net.op("ConvTranspose", x, net.normal(channels, filters, 2, 2)), filters)


def joined_convolutions_then_norm(draw: Draw, net: Network) -> str:
    """Convolutions whose channels are joined and normalised."""
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    widths = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(2, 3)))]
    parts = [net.conv(x, channels, width) for width in widths]
    joined = net.op("Concat", *parts, axis=draw(st.sampled_from((1, -3))))
    return net.op("BatchNormalization", joined, *(net.positive(sum(widths)) for _ in range(4)))


def norm_of_rows(draw: Draw, net: Network) -> str:
    """A batch normalisation of rows or lines."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=3)))
    x = activated(draw, net, net.input(*shape))
    return net.op("BatchNormalization", x, *(net.positive(shape[1]) for _ in range(4)))


def affine_then_convolution(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, low=3)
    group = draw(st.sampled_from((1, channels)))
    return net.conv(affine_operator(draw, net, x, channels, FACTORS), channels, 2 * channels, group=group)


def numbers_per_channel_then_convolution(draw: Draw, net: Network) -> str:
    """One number per channel, of a map or of one with its channels last; no other axis has their size."""
    batch, height, width = (draw(st.integers(1, 5)) for _ in range(3))
    channels = draw(st.sampled_from([count for count in range(2, 7) if count not in (batch, height, width)]))
    is_last = draw(st.booleans())
    shape = (batch, height, width, channels) if is_last else (batch, channels, height, width)
    x = activated(draw, net, net.input(*shape))
    numbers = (channels,) if is_last else (channels, 1, 1)
    for op_type in draw(st.lists(st.sampled_from(("Add", "Mul", "Div")), min_size=1, max_size=3)):
        x = net.op(op_type, x, net.positive(*numbers))
    if is_last:
        x = net.op("Transpose", x, perm=[0, 3, 1, 2])
    return net.conv(x, channels, draw(st.integers(1, 4)), kernel=1, strides=[draw(st.integers(1, 2))] * 2)


def lone_affine(draw: Draw, net: Network) -> str:
    channels = draw(st.integers(1, 5))
    x = activated(draw, net, net.input(1, channels, draw(st.integers(1, 8)), draw(st.integers(2, 8))))
    return net.op("Sigmoid", affine_operator(draw, net, x, channels, FACTORS))


def scaled_between_reshapes(draw: Draw, net: Network) -> str:
    """A convolution of one channel, without an offset, of what is reshaped before and after."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(2, 6))
    x = activated(draw, net, net.input(1, rows * columns, 1, 1))
    row = net.op("Reshape", x, net.ints(1, 1, rows, columns))
    scaled = net.op("Conv", row, net.positive(1, 1, 1, 1), net.constant(np.zeros(1, np.float32)))
    return net.op("Reshape", scaled, net.ints(*draw(st.sampled_from(((1, -1), (1, -1, 1), (1, -1, 1, 1))))))


def computed_twice(draw: Draw, net: Network) -> str:
    """What is computed of a map, or of two, a second time, and read by something else."""
    x, _ = feature_map(draw, net)
    op_type = draw(st.sampled_from(("Add", "Sub", "Relu", "ReduceMean")))
    operands = (x, net.op("Sigmoid", x)) if op_type in ("Add", "Sub") else (x,)
    attributes = {"axes": [1], "keepdims": 1} if op_type == "ReduceMean" and net.opset < 18 else {}
    if op_type == "ReduceMean" and net.opset >= 18:
        operands = (x, net.ints(1))
    first, second = (net.op(op_type, *operands, **attributes) for _ in range(2))
    return net.op("Mul", net.op("Tanh", first), net.op("Sigmoid", second))


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


def gate_first(draw: Draw, net: Network) -> str:
    x, (_, channels, _, _) = feature_map(draw, net, 2)
    gate = net.op("Exp", net.input(channels, 1, 1))
    return net.op("Mul", gate, x)


def choice(draw: Draw, net: Network) -> str:
    x, shape = feature_map(draw, net)
    other = draw(st.sampled_from((net.normal(*shape[1:]), net.constant(-2.5), net.input(*shape))))
    if draw(st.booleans()):
        condition = net.constant(net.rng.random(shape) > 0.5, np.bool_)
    else:
        condition = net.op("Greater", net.input(*shape[1:]), net.constant(0.0))
    return net.op("Where", condition, *draw(st.permutations((x, other))))
