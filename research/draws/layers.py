"""Single layers of convolutional networks, and rows of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from engine.conformance.hunt.grammar import maps
from engine.conformance.hunt.grammar.drawing import Drawing
from research.draws.family import DrawFamily, between, one_of
from research.draws.sizes import (
    CHANNELS,
    MANY,
    any_map,
    batch_of_maps,
    batch_of_views,
    camera_image,
    entering,
    even_map,
    few_elements,
    link_map,
    patched,
    rung,
)


def _dense_kernel(net: Drawing, x: str) -> str:
    made = net.pick(*CHANNELS[3:], *MANY[:6])
    kernels: tuple[int | tuple[int, int], ...] = (1, 1, 3, 3, 3, 5, 7, (1, 3), (3, 1), (1, 7), (7, 1))
    kernel = net.pick(*kernels)
    return net.op("Relu", net.convolve(x, made, kernel, net.pick(1, 1, 1, 2), dilation=net.pick(1, 1, 1, 1, 2, 3)))


def _patches(net: Drawing, x: str) -> str:
    """A convolution that makes patches, or another of large windows or steps, without padding."""
    made = net.pick(16, 32, 48, 64, 96, 128)
    kernel, stride = net.pick(
        (3, 3), (4, 4), (4, 4), (5, 5), (6, 6), (8, 8), (16, 16), (14, 14), (7, 4), (5, 3), (11, 4), (10, 2), (12, 1)
    )
    weights = net.normal(made, net.channels(x), kernel, kernel, scale=0.1)
    return net.op("Relu", net.op("Conv", x, weights, kernel_shape=[kernel] * 2, strides=[stride] * 2))


def _depthwise(net: Drawing, x: str) -> str:
    return net.op("Relu", net.depthwise(x, net.pick(3, 3, 5, 5, 7, 9, 11), net.pick(1, 1, 2)))


def _grouped(net: Drawing, x: str) -> str:
    channels = net.channels(x)
    groups = [count for count in (2, 3, 4, 8, 16, 32) if channels % count == 0 and channels // count > 1] or [1]
    return net.op("Relu", net.convolve(x, channels, net.pick(1, 3, 3, 5), net.pick(1, 1, 2), net.pick(*groups)))


def _stack(net: Drawing, x: str) -> str:
    for _ in range(net.pick(1, 2, 3)):
        made = net.pick(net.channels(x), net.channels(x), net.pick(*CHANNELS[3:]))
        x = net.activate(net.convolve(x, made, net.pick(1, 3, 3, 5)))
    return x


def _chain(net: Drawing, x: str) -> str:
    """One to eight equal links between convolutions: what a layer adds to layers that run already."""
    link, channels = net.pick(*_LINKS), net.channels(x)
    net.blocks.append(link.__name__)
    y = net.convolve(x, channels, 3)
    for _ in range(net.pick(1, 2, 3, 4, 6, 8)):
        y = link(net, y)
    return net.convolve(y, channels, 3)


def _again(net: Drawing, x: str, kernel: int = 3) -> str:
    """A convolution that keeps the channels."""
    return net.convolve(x, net.channels(x), kernel)


def _one_tap(net: Drawing, x: str) -> str:
    return _again(net, x, 1)


def _wide_window(net: Drawing, x: str) -> str:
    return _again(net, x, 5)


def _looked_up(net: Drawing, x: str) -> str:
    return _again(net, net.op("Sigmoid", x))


def _pooled(net: Drawing, x: str) -> str:
    kernel = net.pick(3, 5)
    return _again(net, net.pool(x, kernel, 1, net.pick("MaxPool", "AveragePool"), kernel // 2))


def _sloped(net: Drawing, x: str) -> str:
    return net.op("PRelu", _again(net, x), net.positive(net.channels(x), 1, 1))


def _residual(net: Drawing, x: str) -> str:
    return net.op(net.pick("Add", "Mul"), x, _again(net, x))


def _joined(net: Drawing, x: str) -> str:
    return net.convolve(net.concat(x, _again(net, x)), net.channels(x), 3)


def _separable(net: Drawing, x: str) -> str:
    return _one_tap(net, net.depthwise(x))


def _excited(net: Drawing, x: str) -> str:
    y = _again(net, x)
    gate = net.convolve(net.op("Relu", net.convolve(net.op("GlobalAveragePool", y), 8)), net.channels(x))
    return net.op("Mul", y, net.op("Sigmoid", gate))


def _up_and_down(net: Drawing, x: str) -> str:
    height, width = net.size(x)
    return net.pool(net.resize(x, 2 * height, 2 * width), 2, 2)


_LINKS = (
    *(_again, _one_tap, _wide_window, _looked_up, _pooled, _sloped, _residual, _joined, _separable, _excited),
    _up_and_down,
)


def _first(net: Drawing, x: str) -> str:
    """A convolution that reads the model's input; what is behind it is small."""
    y = net.convolve(x, net.pick(8, 16, 32), net.pick(1, 3, 3, 5), net.pick(1, 2, 2))
    return net.op("GlobalAveragePool", net.convolve(net.pool(y, 2, 2), 16))


def _largest_of_views(net: Drawing, x: str) -> str:
    count, _, height, width = net.dims(x)
    channels = net.pick(4, 8, 16, 32)
    views = net.reshape(net.convolve(x, channels, 3), 1, count, channels, height, width)
    return net.convolve(net.op("ReduceMax", views, axes=[1], keepdims=0), 8)


def _transposed(net: Drawing, x: str) -> str:
    kernel, stride, pad = net.pick((2, 2, 0), (4, 2, 1), (3, 2, 1))
    channels = net.channels(x)
    weights = net.normal(channels, net.pick(8, 16, 32, 64), kernel, kernel, scale=0.1)
    return net.op("ConvTranspose", x, weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)


def _two_maps(net: Drawing, x: str) -> str:
    """A sum, difference or product of maps that two layers compute, or that one and its own input are."""
    kind = net.pick("Add", "Add", "Mul", "Mul", "Sub")
    first = net.op("Sigmoid" if net.chance(0.5) else "Relu", net.convolve(x, net.channels(x)))
    return net.op(kind, first, x if net.chance(0.5) else net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4))


def _broadcast(net: Drawing, x: str) -> str:
    """A gate per channel or per pixel, or constants per channel."""
    kind = net.pick("channel", "pixel", "constant", "constant sum")
    if kind == "constant":
        return net.op("Mul", net.op("Sigmoid", x), net.positive(net.channels(x), 1, 1))
    if kind == "constant sum":
        return net.op("Add", net.op("Sigmoid", x), net.normal(net.channels(x), 1, 1))
    if kind == "pixel":
        return net.op("Mul", x, net.op("Sigmoid", net.convolve(x, 1)))
    return net.op("Mul", x, net.op("Sigmoid", net.convolve(net.op("GlobalAveragePool", x), net.channels(x))))


def _activation(net: Drawing, x: str) -> str:
    kind = net.pick("silu", "hard_swish", "leaky_relu", "gelu", "prelu", "mish", "elu", "tanh", "sigmoid")
    return net.activate(x, kind)


def _gated(net: Drawing, x: str) -> str:
    """A table over few elements."""
    return net.op(net.pick("Sigmoid", "HardSigmoid"), x)


def _pool(net: Drawing, x: str) -> str:
    kernel, stride, pad = net.pick(
        (2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 1, 2), (3, 2, 0), (9, 1, 4), (13, 1, 6), (4, 4, 0)
    )
    if min(net.size(x)) < kernel:
        kernel, stride, pad = 1, 1, 0
    return net.pool(x, kernel, stride, net.pick("MaxPool", "MaxPool", "AveragePool"), pad)


def _reduce(net: Drawing, x: str) -> str:
    kind = net.pick("ReduceMean", "ReduceMean", "ReduceMax", "ReduceSum")
    return net.op(kind, x, axes=net.pick([1], [2, 3], [2], [3]), keepdims=1)


def _global(net: Drawing, x: str) -> str:
    return net.op(net.pick("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"), x)


def _resize(net: Drawing, x: str) -> str:
    height, width = net.size(x)
    factor = net.pick(2, 2, 2, 4, 3)
    return net.resize(x, height * factor, width * factor, net.pick("nearest", "nearest", "linear"))


def _concat(net: Drawing, x: str) -> str:
    parts = [net.op("Relu", net.convolve(x, net.pick(8, 12, 16, 32, 64))) for _ in range(net.pick(1, 2, 3))]
    return net.concat(x, *parts)


def _split(net: Drawing, x: str) -> str:
    half = net.channels(x) // 2
    first, second = net.divide(x, half, net.channels(x) - half)
    second = net.op("Relu", net.convolve(second, net.channels(second), net.pick(1, 3)))
    return net.concat(first, second)


def _cut(net: Drawing, x: str) -> str:
    height, width = net.size(x)
    match net.pick("rows", "columns", "channels", "strided", "pad"):
        case "rows" if height > 1:
            return net.cut(x, height // 3, height, 2)
        case "columns" if width > 1:
            return net.cut(x, 0, width // 2, 3)
        case "strided" if height > 1:
            return net.cut(x, 0, height, 2, 2)
        case "pad":
            return net.pad(x, *(net.pick(1, 2) for _ in range(4)))
        case _:
            return net.cut(x, net.channels(x) // 4, net.channels(x), 1)


def _of_image(net: Drawing, x: str) -> str:
    """The first layers of a network that reads an image of a camera, each with few channels."""
    x = net.op("Relu", net.convolve(x, net.pick(8, 16, 24, 32), net.pick(3, 3, 5, 7), 2))
    for _ in range(net.pick(0, 1, 2)):
        match net.pick("pool", "depthwise", "conv", "narrow", "sum"):
            case "pool":
                x = net.pool(x, 2, 2, net.pick("MaxPool", "AveragePool"))
            case "depthwise":
                x = net.op("Relu", net.depthwise(x, 3, net.pick(1, 2)))
            case "conv":
                x = net.activate(net.convolve(x, net.pick(16, 32, 48), 3, net.pick(1, 2)))
            case "narrow":
                x = net.activate(net.convolve(x, 8))
            case _:
                x = net.op("Add", x, net.op("Relu", net.convolve(x, net.channels(x), 3)))
    return net.convolve(x, net.pick(1, 4, 8))


def _ladder(net: Drawing, x: str) -> str:
    """One layer of each kind on maps of one shape, each behind a convolution of one tap, in a row: the page tells what
    each computes.
    """
    channels, (height, width) = net.channels(x), net.size(x)

    def after(y: str) -> str:
        return net.op("Relu", net.convolve(y, channels))

    first = after(x)
    y = after(net.op("Sigmoid", first))
    y = after(net.op("Mul", y, first))
    y = after(net.op("Add", y, net.op("Relu", net.convolve(y, channels, 3))))
    y = after(net.op("Sub", y, net.op("ReduceMean", y, axes=[1], keepdims=1)))
    y = after(net.op("Mul", y, y))
    y = after(net.op("Mul", y, net.op("Sigmoid", net.convolve(net.op("GlobalAveragePool", y), channels))))
    y = after(net.op("Mul", y, net.op("Sigmoid", net.convolve(y, 1))))
    y = after(net.op("PRelu", y, net.positive(channels, 1, 1)))
    y = after(net.op("Relu", net.depthwise(y, 3)))
    y = after(net.pool(y, 3, 1, "MaxPool", 1))
    y = after(net.pool(y, 3, 1, "AveragePool", 1))
    y = after(net.concat(y, net.op("Relu", net.convolve(y, 12))))
    y = after(net.cut(y, channels // 4, channels, 1))
    y = after(net.op("Add", net.op("Sigmoid", y), net.normal(channels, 1, 1)))
    if min(height, width) > 1:
        y = after(net.pool(y, 2, 2, "MaxPool"))
        y = after(net.resize(y, height, width, "nearest") if height % 2 == width % 2 == 0 else y)
    return net.convolve(y, 16)


def _row(net: Drawing, x: str) -> str:
    """Layers of many kinds in a row, some behind convolutions: the page tells what each takes, and what it costs the
    layer in front of it, where nothing is fused.
    """
    for _ in range(14):
        x = net.activate(net.convolve(x, net.channels(x), net.pick(1, 1, 3)), net.pick("relu", "sigmoid", "leaky_relu"))
        x = _link(net, x)
    return net.convolve(x, 8)


def _link(net: Drawing, x: str) -> str:
    """One layer, or a few, that give a map."""
    channels, (height, width) = net.channels(x), net.size(x)
    small, large = min(height, width) < 6, height * width > 1024
    match net.rng.randrange(18):
        case 0:
            return net.convolve(x, net.pick(4, 8, 12, 16, 24, 32), net.pick(3, 5, 7), 1 if small else net.pick(1, 2, 2))
        case 1:
            return net.depthwise(x, net.pick(3, 5, 7), 1 if small else net.pick(1, 1, 2))
        case 2:
            return net.activate(x, net.pick("sigmoid", "leaky_relu", "prelu"))
        case 3:
            return net.op("Add", net.op("Sigmoid", x), net.op("Relu", net.convolve(x, channels, 3)))
        case 4:
            return net.op("Sub", net.op("Sigmoid", x), net.op("Relu", net.convolve(x, channels)))
        case 5:
            return net.op("Mul", x, net.op("Relu", net.convolve(x, channels)))
        case 6:
            return net.op("Mul", x, net.op("Sigmoid", net.convolve(net.op("GlobalAveragePool", x), channels)))
        case 7:
            return net.op("Mul", x, net.op("Sigmoid", net.convolve(x, 1)))
        case 8 | 9:
            kind = net.pick("ReduceMean", "ReduceMean", "ReduceMax")
            gate = net.convolve(net.op(kind, x, axes=[1], keepdims=1), 1, net.pick(1, 3, 7))
            return net.op("Mul", x, net.op("Sigmoid", gate))
        case 10:
            rows = net.op("ReduceMean", x, axes=[net.pick(2, 3)], keepdims=1)
            return net.op("Mul", x, net.op("Sigmoid", net.convolve(rows, channels)))
        case 11:
            return net.pool(x, net.pick(3, 5, 5), 1, "MaxPool", 0) if not small else x
        case 12:
            return net.pool(x, net.pick(3, 5), 1, "AveragePool", 0) if not small else x
        case 13:
            return net.pool(x, 2, 2, net.pick("MaxPool", "AveragePool")) if not small else x
        case 14:
            return net.concat(x, net.op("Relu", net.convolve(x, net.pick(4, 8, 12, 16)))) if channels < 48 else x
        case 15:
            return net.cut(x, channels // 2, channels, 1) if channels > 1 else x
        case 16 if not large:
            return net.resize(x, 2 * height, 2 * width, net.pick("nearest", "linear"))
        case _:
            return net.op("Sub", x, net.op("ReduceMean", x, axes=[1], keepdims=1)) if channels > 1 else x


LAYERS: Mapping[str, DrawFamily] = MappingProxyType(
    {
        "conv": DrawFamily(any_map, between(_dense_kernel)),
        "conv_int16": DrawFamily(any_map, between(_dense_kernel)),
        "patches": DrawFamily(patched, between(_patches)),
        "depthwise": DrawFamily(any_map, between(_depthwise)),
        "grouped": DrawFamily(any_map, between(_grouped)),
        "stack": DrawFamily(any_map, _stack),
        "chain": DrawFamily(link_map, _chain),
        "first": DrawFamily(entering, _first),
        "views": DrawFamily(batch_of_views, _largest_of_views),
        "transposed": DrawFamily(any_map, between(_transposed)),
        "elementwise": DrawFamily(any_map, between(_two_maps)),
        "elementwise_int16": DrawFamily(any_map, between(_two_maps)),
        "pool_int16": DrawFamily(any_map, between(_pool)),
        "concat_int16": DrawFamily(any_map, between(_concat)),
        "stack_int16": DrawFamily(any_map, _stack),
        "body_int16": DrawFamily(even_map, between(one_of(*maps.BODIES))),
        "broadcast": DrawFamily(any_map, between(_broadcast)),
        "activation": DrawFamily(any_map, between(_activation)),
        "row": DrawFamily(batch_of_maps, _row),
        "gate": DrawFamily(few_elements, between(_gated)),
        "pool": DrawFamily(any_map, between(_pool)),
        "reduce": DrawFamily(any_map, between(_reduce)),
        "global": DrawFamily(any_map, between(_global)),
        "resize": DrawFamily(any_map, between(_resize)),
        "concat": DrawFamily(any_map, between(_concat)),
        "image": DrawFamily(camera_image, _of_image),
        "ladder": DrawFamily(rung, _ladder),
        "ladder_int16": DrawFamily(rung, _ladder),
        "split": DrawFamily(any_map, between(_split)),
        "cut": DrawFamily(any_map, between(_cut)),
        "body": DrawFamily(even_map, between(one_of(*maps.BODIES))),
    }
)
"""Families of layers and of rows of them, by name."""
