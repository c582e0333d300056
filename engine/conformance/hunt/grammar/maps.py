"""Blocks of convolutional networks: each takes a map, shape (1, channels, rows, columns), and gives one."""

from __future__ import annotations

from collections.abc import Callable

from engine.conformance.hunt.grammar.drawing import END, Drawing

Block = Callable[[Drawing, str], str]


# -- stems ---------------------------------------------------------------------------------------------------------


def plain_stem(net: Drawing, x: str) -> str:
    """A convolution with stride 1 or 2."""
    return net.layer(x, net.pick(8, 12, 16), net.pick(3, 3, 5, 6), net.pick(1, 2, 2))


def pooled_stem(net: Drawing, x: str) -> str:
    """7 x 7 and a max pooling, as in ResNet."""
    return net.pool(net.layer(x, 16, 7, 2), 3, 2, pad=1)


def deep_stem(net: Drawing, x: str) -> str:
    """Three small convolutions, as in ResNet-D and LeViT."""
    for made, stride in ((8, 2), (8, 1), (16, 1)):
        x = net.layer(x, made, 3, stride)
    return x


def focus_stem(net: Drawing, x: str) -> str:
    """Every second pixel in four slices, as in YOLOv5 and YOLOX."""
    if any(side % 2 for side in net.size(x)):
        return plain_stem(net, x)
    parts = []
    for column in (0, 1):
        for row in (0, 1):
            parts.append(net.cut(net.cut(x, row, END, 2, 2), column, END, 3, 2))
    return net.layer(net.concat(*parts), 16)


def folded_stem(net: Drawing, x: str) -> str:
    """SpaceToDepth in front of the first convolution."""
    if any(side % 2 for side in net.size(x)):
        return plain_stem(net, x)
    return net.layer(net.op("SpaceToDepth", x, blocksize=2), 16, net.pick(1, 3))


def patch_stem(net: Drawing, x: str) -> str:
    """A convolution whose windows do not overlap, and a normalisation over channels, as in ConvNeXt."""
    y = net.convolve(x, 16, (net.pick(2, 4),) * 2, 2)
    return _channel_norm(net, y)


STEMS: tuple[Block, ...] = (
    *(plain_stem,) * 5,
    *(pooled_stem,) * 2,
    deep_stem,
    focus_stem,
    folded_stem,
    patch_stem,
)


# -- bodies --------------------------------------------------------------------------------------------------------


def plain(net: Drawing, x: str) -> str:
    """One or two convolutions."""
    for _ in range(net.pick(1, 2)):
        x = net.layer(x, net.channels(x), net.pick(1, 3, 3))
    return x


def down(net: Drawing, x: str) -> str:
    """Half the size, by a stride or a pooling; small maps stay as they are."""
    if min(net.size(x)) < 8:
        return plain(net, x)
    made = min(32, net.channels(x) * 2)
    if net.chance(0.6):
        return net.layer(x, made, 3, 2)
    kind = net.pick("MaxPool", "MaxPool", "AveragePool")
    return net.layer(net.pool(x, 2, 2, kind), made, net.pick(1, 3))


def residual(net: Drawing, x: str) -> str:
    """Two convolutions and a sum, as in ResNet."""
    made = net.channels(x)
    y = net.convolve(net.layer(x, made), made, 3)
    return net.activate(net.op("Add", *net.pick((y, x), (x, y))))


def bottleneck(net: Drawing, x: str) -> str:
    """Narrow, convolve, widen, with a projected shortcut or not, grouped or not, as in ResNet-50 and RegNet."""
    given = net.channels(x)
    made, narrow = net.pick(given, given * 2), max(4, given // 2)
    y = net.layer(x, narrow, 1)
    y = net.layer(y, narrow, 3, 1, net.pick(1, 1, 2))
    y = net.convolve(y, made)
    shortcut = x if made == given else net.convolve(x, made)
    return net.activate(net.op("Add", y, shortcut))


def preactivated(net: Drawing, x: str) -> str:
    """Normalisation and activation in front of the convolutions."""
    y = net.activate(net.batch_norm(x))
    y = net.convolve(y, net.channels(x), 3, bias=True)
    return net.op("Add", y, x)


def inverted_residual(net: Drawing, x: str) -> str:
    """Widen, convolve by channel, narrow, as in MobileNetV2 and EfficientNet."""
    made = net.channels(x)
    y = net.activate(net.depthwise(net.layer(x, made * net.pick(2, 3), 1), net.pick(3, 5)))
    if net.chance(0.5):
        y = squeeze_excite(net, y)
    y = net.convolve(y, made)
    return net.op("Add", *net.pick((y, x), (x, y)))


def separable(net: Drawing, x: str) -> str:
    """By channel, then by pixel, as in MobileNetV1 and Xception."""
    return net.layer(net.activate(net.depthwise(x)), net.channels(x), 1)


def dense_block(net: Drawing, x: str) -> str:
    """Every layer reads all before it, as in DenseNet; normalisation in front or behind."""
    first = net.chance(0.5)
    for _ in range(net.pick(1, 2)):
        y = net.activate(net.batch_norm(x)) if first else x
        y = net.convolve(y, 8, 3, bias=True) if first else net.layer(y, 8)
        x = net.concat(x, y)
    return x


def shuffle(net: Drawing, x: str) -> str:
    """A half is convolved, and the channels of both are mixed, as in ShuffleNetV2."""
    channels, (height, width) = net.channels(x), net.size(x)
    half = channels // 2
    for _ in range(net.pick(1, 1, 2)):
        kept, taken = net.divide(x, half, half)
        taken = net.convolve(net.depthwise(net.layer(taken, half, 1)), half)
        joined = net.concat(kept, net.activate(taken))
        x = _shuffled(net, joined, half * 2, height, width, net.pick(2, 2, 4 if half % 2 == 0 else 2))
    return x


def grouped_shuffle(net: Drawing, x: str) -> str:
    """Grouped convolutions around a shuffle, as in ShuffleNetV1."""
    channels, (height, width) = net.channels(x) // 4 * 4, net.size(x)
    x = net.convolve(x, channels)
    y = net.activate(net.convolve(x, channels, group=2))
    y = net.depthwise(_shuffled(net, y, channels, height, width, 2))
    return net.activate(net.op("Add", net.convolve(y, channels, group=2), x))


def _shuffled(net: Drawing, x: str, channels: int, height: int, width: int, groups: int) -> str:
    if channels % groups:
        groups = 2
    apart = net.reshape(x, 1, groups, channels // groups, height, width)
    last = -1 if net.chance(0.5) else channels
    return net.reshape(net.transpose(apart, 0, 2, 1, 3, 4), 1, last, height, width)


def ghost(net: Drawing, x: str) -> str:
    """Half of the channels come from cheap convolutions of the others, as in GhostNet."""
    made = net.channels(x) // 2 * 2
    first = net.layer(x, made // 2, 1)
    cheap = net.activate(net.depthwise(first, net.pick(3, 5)))
    joined = net.concat(first, cheap)
    if net.chance(0.3):
        joined = net.cut(joined, 0, made, 1)
    return net.op("Add", joined, x) if made == net.channels(x) and net.chance(0.5) else joined


def c2f(net: Drawing, x: str) -> str:
    """YOLOv8's: two halves, bottlenecks in a row, all joined."""
    made = net.channels(x) // 4 * 4
    half, shortcut = made // 2, net.chance(0.6)
    parts = net.divide(net.layer(x, made, 1), half, half)
    for _ in range(net.pick(1, 1, 2)):
        y = net.layer(net.layer(parts[-1], half), half)
        parts.append(net.op("Add", parts[-1], y) if shortcut else y)
    return net.layer(net.concat(*parts), made, 1)


def c3(net: Drawing, x: str) -> str:
    """YOLOv5's: two branches of 1 x 1, bottlenecks in one."""
    made = net.channels(x) // 2 * 2
    y, aside = net.layer(x, made // 2, 1), net.layer(x, made // 2, 1)
    z = net.layer(net.layer(y, made // 2, 1), made // 2)
    y = net.op("Add", y, z) if net.chance(0.6) else z
    return net.layer(net.concat(y, aside), made, 1)


def c3k2(net: Drawing, x: str) -> str:
    """YOLO11's: as C2f with a C3 inside."""
    made = max(8, net.channels(x) // 4 * 4)
    half = made // 2
    parts = net.divide(net.layer(x, made, 1), half, half)
    parts.append(c3(net, parts[-1]))
    return net.layer(net.concat(*parts), made, 1)


def elan(net: Drawing, x: str) -> str:
    """YOLOv7's and YOLOv9's aggregation: parts of different depths joined."""
    made = net.channels(x) // 2 * 2
    first, second = net.layer(x, made // 2, 1), net.layer(x, made // 2, 1)
    third = net.layer(second, made // 2)
    fourth = net.layer(third, made // 2)
    return net.layer(net.concat(*net.pick((first, second, third, fourth), (fourth, third, second, first))), made, 1)


def reparametrised(net: Drawing, x: str) -> str:
    """Branches of 3 x 3, 1 x 1 and nothing, not yet folded into one, as in RepVGG and YOLOv6."""
    made = net.channels(x)
    branches = [net.batch_norm(net.convolve(x, made, 3, bias=False)), net.convolve(x, made, bias=True)]
    total = net.op("Add", *branches)
    return net.activate(net.op("Add", total, net.batch_norm(x)) if net.chance(0.6) else total)


def sppf(net: Drawing, x: str) -> str:
    """Poolings in a row, joined, as in YOLO."""
    made = net.channels(x) // 2 * 2
    parts = [net.layer(x, made // 2, 1)]
    side = net.pick(5, 3)
    for _ in range(3):
        parts.append(net.pool(parts[-1], side, 1, pad=side // 2))
    return net.layer(net.concat(*parts), made, 1)


def spp(net: Drawing, x: str) -> str:
    """Poolings of three sizes side by side."""
    y = net.layer(x, max(4, net.channels(x) // 2), 1)
    parts = [net.pool(y, side, 1, pad=side // 2) for side in (5, 9, 13)]
    return net.layer(net.concat(y, *parts), net.channels(x), 1)


def inception(net: Drawing, x: str) -> str:
    """Branches of different kernels and a pooling, joined."""
    parts = [
        net.layer(x, 4, 1),
        net.layer(net.layer(x, 4, 1), 8, net.pick(3, 5)),
        net.layer(net.layer(x, 4, (1, 7)), 8, (7, 1)) if net.chance(0.4) else net.layer(x, 8, 3),
        net.layer(net.pool(x, 3, 1, net.pick("MaxPool", "AveragePool"), 1), 4, 1),
    ]
    return net.concat(*parts)


def fire(net: Drawing, x: str) -> str:
    """SqueezeNet's."""
    y = net.layer(x, 4, 1)
    return net.concat(net.layer(y, 8, 1), net.layer(y, 8, 3))


def convnext(net: Drawing, x: str) -> str:
    """By channel, then a perceptron per pixel on channels last, scaled, as in ConvNeXt."""
    made = net.channels(x)
    y = net.transpose(net.depthwise(x, 7), 0, 2, 3, 1)
    y = net.dense(net.activate(net.dense(net.norm_last(y), made * 2), "gelu"), made)
    y = net.op("Mul", *net.pick((y, net.positive(made)), (net.positive(made), y))) if net.chance(0.7) else y
    return net.op("Add", net.transpose(y, 0, 3, 1, 2), x)


def dilated(net: Drawing, x: str) -> str:
    """A convolution with holes."""
    return net.activate(net.convolve(x, net.channels(x), 3, dilation=net.pick(2, 3)))


def aspp(net: Drawing, x: str) -> str:
    """Convolutions of three dilations and a pooled branch, joined, as in DeepLab."""
    height, width = net.size(x)
    parts = [net.layer(x, 8, 1)]
    parts += [net.activate(net.convolve(x, 8, 3, dilation=rate)) for rate in net.pick((2, 4), (1, 2, 3))]
    if net.chance(0.7):
        single = net.activate(net.convolve(net.mean_map(x), 8))
        parts.append(net.resize(single, height, width, net.pick("linear", "nearest")))
    return net.layer(net.concat(*parts), net.channels(x), 1)


def normalised(net: Drawing, x: str) -> str:
    """A convolution behind which groups, samples or channels are normalised."""
    y = net.convolve(x, net.channels(x) // 4 * 4, 3, bias=True)
    match net.pick("group", "instance", "channel", "l2", "response"):
        case "group":
            y = net.group_norm(y, net.pick(2, 4))
        case "instance":
            channels = net.channels(y)
            y = net.op("InstanceNormalization", y, net.positive(channels), net.normal(channels), epsilon=1e-5)
        case "channel":
            y = _channel_norm(net, y)
        case "l2":
            length = net.op("Max", net.op("ReduceL2", y, axes=[1], keepdims=1), net.scalar(1e-6))
            y = net.op("Div", y, length)
        case _:  # ConvNeXt V2's
            length = net.op("ReduceL2", y, axes=[2, 3], keepdims=1)
            mean = net.op("Add", net.op("ReduceMean", length, axes=[1], keepdims=1), net.scalar(1e-6))
            scaled = net.op("Mul", net.op("Mul", y, net.op("Div", length, mean)), net.normal(net.channels(y), 1, 1))
            y = net.op("Add", scaled, y)
    return net.activate(y)


def _channel_norm(net: Drawing, x: str) -> str:
    """LayerNorm2d: over channels in place, or on channels last."""
    if net.chance(0.5):
        return net.transpose(net.norm_last(net.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)
    channels = net.channels(x)
    centred = net.op("Sub", x, net.op("ReduceMean", x, axes=[1], keepdims=1))
    square = net.op("Pow", centred, net.scalar(2.0))
    mean = net.op("Add", net.op("ReduceMean", square, axes=[1], keepdims=1), net.scalar(1e-6))
    normed = net.op("Div", centred, net.op("Sqrt", mean))
    return net.op("Add", net.op("Mul", net.positive(channels, 1, 1), normed), net.normal(channels, 1, 1, scale=0.1))


def local_response(net: Drawing, x: str) -> str:
    """AlexNet's normalisation."""
    return net.op("LRN", net.layer(x, net.channels(x)), size=5, alpha=1e-4, beta=0.75, bias=1.0)


def asymmetric_pads(net: Drawing, x: str) -> str:
    """A Pad on two sides and a convolution with stride, as TensorFlow's SAME is exported."""
    if min(net.size(x)) < 8:
        return net.layer(x, net.channels(x))
    padded, channels = net.pad(x, 0, 0, 1, 1, mode=net.pick("constant", "constant", "reflect", "edge")), net.channels(x)
    weight = net.normal(channels, channels, 3, 3, scale=0.1)
    bias = net.normal(channels, scale=0.1)
    y = net.op("Conv", padded, weight, bias, kernel_shape=[3, 3], strides=[2, 2], pads=[0] * 4)
    return net.activate(y)


def gated_sum(net: Drawing, x: str) -> str:
    """Two branches, weighted by a Softmax over them, as in selective kernels."""
    channels = net.channels(x)
    first, second = net.layer(x, channels, 3), net.layer(x, channels, 1)
    vector = net.mean_map(net.op("Add", first, second))
    scores = net.convolve(net.activate(net.convolve(vector, 8), "relu"), 2 * channels)
    gates = net.softmax(net.reshape(scores, 1, 2, channels, 1), 1)
    one, two = (net.reshape(part, 1, channels, 1, 1) for part in net.divide(gates, 1, 1))
    return net.op("Add", net.op("Mul", first, one), net.op("Mul", second, two))


# -- attention to channels and places --------------------------------------------------------------------------------


def squeeze_excite(net: Drawing, x: str) -> str:
    """A gate per channel: convolutions or dense layers, Sigmoid or HardSigmoid."""
    channels = net.channels(x)
    narrow = max(4, channels // 4)
    if net.chance(0.7):
        y = net.activate(net.convolve(net.mean_map(x), narrow), net.pick("relu", "relu", "silu"))
        y = net.convolve(y, channels)
    else:
        flat = net.op("Flatten", net.mean_map(x), axis=1)
        y = net.dense(net.op("Relu", net.dense(flat, narrow)), channels)
    gate = net.op("Sigmoid", y) if net.chance(0.6) else net.hard_sigmoid(y)
    gate = gate if len(net.dims(gate)) == 4 else net.reshape(gate, 1, channels, 1, 1)
    return net.op("Mul", *net.pick((x, gate), (gate, x)))


def channel_mean_gate(net: Drawing, x: str) -> str:
    """Efficient channel attention: a convolution along the channels' means."""
    channels = net.channels(x)
    line = net.reshape(net.mean_map(x), 1, 1, channels)
    gate = net.op("Sigmoid", net.reshape(net.convolve(line, 1, 3, bias=False), 1, channels, 1, 1))
    return net.op("Mul", x, gate)


def cbam(net: Drawing, x: str) -> str:
    """Gates from means and maxima, over channels and then over places."""
    channels = net.channels(x)
    first, second = (
        net.convolve(net.op("Relu", net.convolve(net.op(kind, x), 4)), channels)
        for kind in ("GlobalAveragePool", "GlobalMaxPool")
    )
    x = net.op("Mul", x, net.op("Sigmoid", net.op("Add", first, second)))
    both = [net.op(kind, x, axes=[1], keepdims=1) for kind in ("ReduceMean", "ReduceMax")]
    return net.op("Mul", x, net.op("Sigmoid", net.convolve(net.concat(*both), 1, 7, bias=False)))


def coordinate_attention(net: Drawing, x: str) -> str:
    """Gates per row and per column."""
    channels, (height, width) = net.channels(x), net.size(x)
    rows = net.op("ReduceMean", x, axes=[3], keepdims=1)
    columns = net.transpose(net.op("ReduceMean", x, axes=[2], keepdims=1), 0, 1, 3, 2)
    y = net.activate(net.convolve(net.concat(rows, columns, axis=2), 8), "hard_swish")
    rows, columns = net.divide(y, height, width, axis=2)
    columns = net.transpose(columns, 0, 1, 3, 2)
    gates = [net.op("Sigmoid", net.convolve(part, channels)) for part in (rows, columns)]
    return net.op("Mul", net.op("Mul", x, gates[1]), gates[0])


def place_gate(net: Drawing, x: str) -> str:
    """A map of one channel multiplies all."""
    return net.op("Mul", x, net.op("Sigmoid", net.convolve(x, 1, net.pick(1, 3))))


BODIES: tuple[Block, ...] = (
    *(residual, inverted_residual, c2f, c3k2, shuffle) * 3,
    *(plain, bottleneck, separable, dense_block, ghost, c3, sppf, squeeze_excite) * 2,
    preactivated,
    grouped_shuffle,
    elan,
    reparametrised,
    spp,
    inception,
    fire,
    convnext,
    dilated,
    aspp,
    normalised,
    normalised,
    local_response,
    asymmetric_pads,
    gated_sum,
    channel_mean_gate,
    cbam,
    coordinate_attention,
    place_gate,
)
"""As often as deployed networks have them."""
