"""Functions of each value and normalisations, as exporters write them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.strategies.pass_patterns.pieces import commuted, feature_map
from tests.strategies.patterns import Draw, Network


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


def reciprocal_root(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    inside = net.op("Mul", x, x)
    number = net.constant(draw(st.sampled_from((1e-3, 1.0))))
    if draw(st.booleans()):
        return net.op("Reciprocal", commuted(draw, net, "Add", net.op("Sqrt", inside), number))
    return net.op("Reciprocal", net.op("Sqrt", commuted(draw, net, "Add", inside, number)))


def softmax_over_channels(draw: Draw, net: Network) -> str:
    x, _ = feature_map(draw, net)
    swapped = net.op("Transpose", x, perm=[0, 3, 2, 1])
    return net.op("Transpose", net.op("Softmax", swapped, axis=3), perm=[0, 3, 2, 1])


def length(draw: Draw, net: Network) -> str:
    """A norm over one axis or several, which are an input from opset 18 on."""
    x, shape = feature_map(draw, net)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=3, unique=True))
    kind, keep = draw(st.sampled_from(("ReduceL1", "ReduceL2"))), draw(st.integers(0, 1))
    if net.opset >= 18:
        return net.op(kind, x, net.ints(*axes), keepdims=keep)
    return net.op(kind, x, axes=axes, keepdims=keep)


def normalised(draw: Draw, net: Network) -> str:
    x, (_, channels, height, width) = feature_map(draw, net, low=2)
    if net.opset < 17 or draw(st.booleans()):
        return net.op("InstanceNormalization", x, net.normal(channels), net.normal(channels))
    axis, shape = draw(st.sampled_from(((-1, (width,)), (2, (height, width)), (1, (channels, height, width)))))
    parameters = [net.normal(*shape), net.normal(*shape)][: draw(st.integers(1, 2))]
    return net.op("LayerNormalization", x, *parameters, axis=axis, epsilon=1e-3)
