"""What needs tidying: constants, defaults that are left out, nodes without use or effect, older operator sets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.strategies.pass_patterns.pieces import feature_map
from tests.strategies.patterns import Draw, Network


def convertible(draw: Draw, net: Network) -> str:
    """What opset 9 writes as attributes, and repeated pixels: interpolated ones are moved, as the original does."""
    x = net.input(1, 3, 6, 8)
    match draw(st.sampled_from(("Slice", "Upsample", "TopK"))):
        case "Slice":
            return net.op("Slice", x, starts=[draw(st.integers(0, 2))], ends=[draw(st.integers(3, 9))], axes=[2])
        case "Upsample":
            return net.op("Upsample", x, net.constant([1, 1, 2, 3]), mode="nearest")
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
