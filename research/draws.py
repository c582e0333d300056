"""Networks that are asked for their latency: single layers, pairs and blocks, drawn family by family from a seed.

A draw is the same wherever it is drawn: ``latency_draw(family, index, march)``. A single layer lies between two
convolutions of one tap (or between two dense layers, where it reads tokens), so that it is neither the first nor the
last, which run otherwise; the sizes are drawn around multiples of 4, 8, 16 and 32.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx

from engine.chips import load_chip
from engine.conformance.hunt.grammar import attention, maps
from engine.conformance.hunt.grammar.drawing import Drawing
from engine.conformance.hunt.grammar.networks import draw_network
from engine.terms import OptimizeLevel

SEED = 41
"""Of the draws that the model is fitted to."""
APART = frozenset(
    {
        *range(4129, 4141),
        *range(4145, 4186, 5),
    }
)
"""Of whole networks that no fit sees: the first were frozen before rules were sought with what the original answers,
the second before those of O0 were, the third before those of O2 were sought anew; the others were looked at once.
"""
MOST_ELEMENTS = 1 << 20
"""Of the largest map of a draw."""
MOST_MACS = 1 << 29
"""Multiply-accumulates of a draw: the original computes it for its calibration."""

Key = tuple[str, int, str, int]
"""Family, number within it, march and seed of a draw."""
Layer = Callable[[Drawing, str], str]
"""Takes a map, shape (1, channels, rows, columns), or tokens, shape (1, tokens, width), and gives one."""


@dataclass(frozen=True)
class Drawn:
    """One network and how it is compiled.

    Attributes:
        family: what it shows.
        index: of the draw within its family.
        model: the float network.
        march: BPU architecture.
        level: ``optimize_level``.
        cores: ``core_num``.
        requests: ``node_info``: what is asked of nodes, by name.
        seed: of the draw.
    """

    family: str
    index: int
    model: onnx.ModelProto
    march: str
    level: OptimizeLevel
    cores: int
    requests: Mapping[str, Mapping[str, str]]
    seed: int = SEED

    @property
    def key(self) -> Key:
        """What names it."""
        return self.family, self.index, self.march, self.seed


def latency_draw(family: str, index: int, march: str, seed: int = SEED) -> Drawn:
    """The draw number ``index`` of ``family`` on ``march``.

    Raises:
        KeyError: there is no such family.
    """
    attempt = 0
    while True:
        found = _attempt((family, index, march, seed), attempt)
        if found is not None:
            return found
        attempt += 1


def _attempt(key: Key, attempt: int) -> Drawn | None:
    """A draw, or None where it is larger than a draw may be."""
    family, index, march, seed = key
    rng = random.Random(f"{seed}-{family}-{index}-{march}-{attempt}")
    if family in WHOLE:
        net = draw_network(seed, index)
    else:
        drawn = FAMILIES[family.removesuffix(UNFUSED)]
        net = Drawing(
            f"latency_{family}_{index}",
            drawn.shape(rng),
            (seed, index, attempt, *family.encode(), *march.encode()),
        )
        net.opset, net.unfolded, net.uneven = 11, False, 0.0
        net.activation = rng.choice(("relu", "relu", "relu", "silu", "hard_swish", "leaky_relu", "gelu"))
        net.output(drawn.build(net, "x"))
    model = net.model()
    if family.removesuffix(UNFUSED) not in _OF_ANY_SIZE and not _is_small(model):
        return None
    return Drawn(
        family, index, model, march, _level(rng, family), _cores(rng, key), _requests(rng, family, model, march), seed
    )


def _is_small(model: onnx.ModelProto) -> bool:
    known = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in _values(model)}
    weights = {each.name: list(each.dims) for each in model.graph.initializer}
    if max(map(math.prod, known.values())) > MOST_ELEMENTS:
        return False
    macs = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            macs += math.prod(known[node.output[0]]) * math.prod(weights[node.input[1]][1:])
        if node.op_type == "MatMul":
            macs += math.prod(known[node.output[0]]) * (known.get(node.input[0]) or weights[node.input[0]])[-1]
    return macs <= MOST_MACS


def _values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    return [*model.graph.input, *model.graph.value_info, *model.graph.output]


def _level(rng: random.Random, family: str) -> OptimizeLevel:
    """Mostly O2, which is what people ship with; O0 is what the checker compiles with."""
    if family in WHOLE:
        return WHOLE[family]
    if family.endswith(UNFUSED):
        return OptimizeLevel.O0
    levels = (OptimizeLevel.O2, OptimizeLevel.O0, OptimizeLevel.O1, OptimizeLevel.O3)
    return rng.choices(levels, (76, 14, 5, 5))[0]


def _cores(rng: random.Random, key: Key) -> int:
    family, _, march, seed = key
    two = march == "bernoulli2" and rng.random() < 0.1
    return 2 if two and not (family in WHOLE and seed != SEED) else 1


def _requests(rng: random.Random, family: str, model: onnx.ModelProto, march: str) -> dict[str, dict[str, str]]:
    """int16 for all nodes of some draws, and Softmax on the BPU: it would run on the CPU by itself."""
    if not load_chip(march).int16:
        return {}
    wide = family.removesuffix(UNFUSED) in _WIDE or (family not in WHOLE and rng.random() < 0.08)
    found = {}
    for node in model.graph.node:
        if wide and node.op_type in _MAY_BE_WIDE:
            found[node.name] = {"ON": "BPU", "InputType": "int16", "OutputType": "int16"}
        elif node.op_type == "Softmax" and family not in WHOLE:
            found[node.name] = {"ON": "BPU"}
    return found


_MAY_BE_WIDE = frozenset({"Conv", "MatMul", "Add", "Sub", "Mul", "Concat", "Sigmoid", "AveragePool", "MaxPool"})

# -- sizes ------------------------------------------------------------------------------------------------------------

_CHANNELS = (
    1,
    3,
    4,
    8,
    12,
    15,
    16,
    17,
    20,
    24,
    31,
    32,
    33,
    40,
    48,
    56,
    63,
    64,
    65,
    72,
    80,
    96,
    112,
    128,
    144,
    160,
    192,
)
_FEW_PIXELS = ((1, 2), (2, 1), (1, 4), (4, 1), (1, 8), (8, 1), (2, 2), (2, 4), (4, 4), (1, 16), (7, 7), (8, 8))
_MANY = (224, 240, 255, 256, 257, 320, 384, 480, 512, 640, 768, 960, 1024)
_SIDES = (1, 2, 3, 4, 5, 7, 8, 10, 12, 13, 14, 16, 20, 24, 26, 28, 32, 40, 48, 52, 56, 64, 80, 96, 112, 128, 160)
_LARGE = (192, 224, 256, 320, 416, 512, 640)
_IMAGES = ((480, 640), (720, 1280), (1080, 1920), (1440, 2560), (2160, 3840))


def _map(rng: random.Random) -> tuple[int, ...]:
    """A map, most of them square."""
    channels = rng.choice(_CHANNELS if rng.random() < 0.75 else _MANY)
    height = rng.choice(_SIDES if rng.random() < 0.85 else _LARGE)
    width = height if rng.random() < 0.8 else rng.choice(_SIDES)
    return 1, channels, height, width


def _patched(rng: random.Random) -> tuple[int, ...]:
    """An image or a map that is cut into patches."""
    side = rng.choice((16, 28, 32, 48, 56, 64, 96, 128))
    return (
        1,
        rng.choice((1, 3, 3, 3, 4, 8, 12, 16, 32, 64)),
        side,
        side if rng.random() < 0.7 else rng.choice((16, 32, 64)),
    )


def _image(rng: random.Random) -> tuple[int, ...]:
    """An image as cameras give it."""
    return 1, rng.choice((1, 3, 3, 3)), *rng.choice(_IMAGES)


def _rung(rng: random.Random) -> tuple[int, ...]:
    """A map of 64 x 64 pixels of 32 channels, or one of another height, width or number of channels."""
    axis = rng.choice((0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3))
    channels = rng.choice((4, 8, 12, 16, 24, 40, 64, 96, 128)) if axis == 1 else 32
    height = rng.choice((1, 2, 3, 5, 6, 9, 16, 33, 128)) if axis == 2 else 64
    width = rng.choice((1, 2, 4, 5, 9, 12, 17, 33, 100, 160)) if axis == 3 else 64
    return 1, channels, height, width


def _link_map(rng: random.Random) -> tuple[int, ...]:
    """A map of few rows, as most layers of a network have."""
    side = rng.choice((4, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 32, 40, 48, 64))
    return 1, rng.choice((8, 16, 16, 24, 32, 32, 48, 64, 128)), side, side


def _entering(rng: random.Random) -> tuple[int, ...]:
    """An image, or a map of few channels that enters the model."""
    side = rng.choice((16, 24, 32, 48, 64, 96, 128, 160))
    return 1, rng.choice((1, 3, 3, 4, 8, 12, 16, 32)), side, side


def _views(rng: random.Random) -> tuple[int, ...]:
    """Images of one thing, as a batch."""
    return rng.choice((2, 2, 3, 4, 5)), 3, rng.choice((4, 8, 10, 16)), rng.choice((4, 8, 12, 16))


def _maps(rng: random.Random) -> tuple[int, ...]:
    """One small map, or a batch of such."""
    sides = (3, 4, 6, 7, 8, 9, 12, 13, 16, 17, 20, 24, 25, 32, 33, 40, 48, 64)
    channels = (1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 21, 24, 32, 48, 64)
    return rng.choice((1, 1, 1, 1, 2, 3, 4, 6, 9)), rng.choice(channels), rng.choice(sides), rng.choice(sides)


def _small_map(rng: random.Random) -> tuple[int, ...]:
    """A map of few pixels."""
    channels, sides = (2, 4, 8, 8, 12, 16, 24, 32), (2, 3, 4, 5, 7, 8, 8, 12, 16, 20)
    return 1, rng.choice(channels), rng.choice(sides), rng.choice(sides)


def _gate(rng: random.Random) -> tuple[int, ...]:
    """A map of so few elements that a table over it is looked up element by element on the oldest march."""
    if rng.random() < 0.6:
        return 1, rng.choice((1, 4, 8, 16, 20, 24, 32, 48, 64, 96, 120, 128, 240, 256, 288, 512, 576, 960, 1024)), 1, 1
    sides = rng.choice(
        ((1, 2), (2, 1), (1, 4), (4, 1), (1, 8), (8, 1), (2, 2), (2, 4), (4, 4), (1, 16), (7, 7), (8, 8))
    )
    return 1, rng.choice((4, 8, 16, 32, 64, 96)), *sides


def _folding_map(rng: random.Random) -> tuple[int, ...]:
    """An image, or a map of more channels, whose sides can be halved."""
    channels = rng.choice((1, 3, 3, 3, 4, 8, 16, 32))
    height, width = rng.choice((16, 32, 64, 128)), rng.choice((16, 32, 48, 64, 96, 128, 160, 256, 320, 416, 640))
    return 1, channels, height, width if channels < 8 else rng.choice((16, 32, 64))


def _even_map(rng: random.Random) -> tuple[int, ...]:
    """A map whose channels and sides can be divided."""
    channels = rng.choice((16, 32, 48, 64, 96, 128, 192, 256))
    side = rng.choice((4, 8, 16, 20, 24, 28, 32, 40, 56, 64, 80))
    return 1, channels, side, side if rng.random() < 0.8 else rng.choice((8, 16, 20, 32, 40))


def _tokens(rng: random.Random) -> tuple[int, ...]:
    """Tokens of a transformer."""
    count = rng.choice((16, 49, 64, 100, 144, 196, 197, 256, 400, 576, 784, 1600))
    return 1, count, rng.choice((16, 32, 48, 64, 96, 128, 192, 256, 384))


def _few_tokens(rng: random.Random) -> tuple[int, ...]:
    """Tokens that lie one below the other."""
    return 1, rng.choice((8, 16, 17, 25, 36, 49, 50, 64, 100)), rng.choice((32, 48, 64, 96, 128, 192, 256))


def _narrow_map(rng: random.Random) -> tuple[int, ...]:
    """What attention over a map reads."""
    channels, side = rng.choice((16, 32, 64, 96, 128, 192, 256)), rng.choice((4, 7, 8, 10, 14, 16, 20, 24, 28, 32, 40))
    return 1, channels, side, side


def _few_pixels(rng: random.Random) -> tuple[int, ...]:
    """A map whose pixels are as many as a layer may have channels."""
    side = rng.choice((4, 5, 6, 7, 8, 10, 12, 14, 16))
    return 1, rng.choice((8, 16, 24, 32, 48, 64, 96, 128)), side, side if rng.random() < 0.7 else rng.choice((4, 8, 16))


def _matrices(rng: random.Random) -> tuple[int, ...]:
    """Queries of attention."""
    rows, depth = rng.choice((4, 8, 16, 17, 24, 32, 49, 64, 100, 144, 196, 256)), rng.choice((4, 8, 16, 17, 32, 64))
    return 1, rng.choice((1, 1, 2, 3, 4, 8)), rows, depth


def _small_map_or_tokens(rng: random.Random) -> tuple[int, ...]:
    if rng.random() < 0.4:
        return 1, rng.choice((4, 16, 49, 64, 100)), rng.choice((16, 24, 64, 256))
    channels = rng.choice((1, 2, 3, 4, 8, 16, 21, 32, 48, 64))
    return 1, channels, rng.choice((1, 2, 4, 8, 16, 24)), rng.choice((1, 4, 7, 8, 16, 32, 64, 200))


# -- single layers ----------------------------------------------------------------------------------------------------


def _between(layer: Layer) -> Layer:
    """``layer`` between two convolutions of one tap."""

    def build(net: Drawing, x: str) -> str:
        y = layer(net, net.op("Relu", net.convolve(x, net.channels(x))))
        return net.convolve(y, net.pick(8, 16, 32)) if len(net.dims(y)) == 4 else y

    return build


def _between_dense(layer: Layer) -> Layer:
    """``layer`` between two dense layers over the last axis."""

    def build(net: Drawing, x: str) -> str:
        y = layer(net, net.op("Relu", net.dense(x, net.dims(x)[-1])))
        return net.dense(y, net.pick(16, 32))

    return build


def _dense_kernel(net: Drawing, x: str) -> str:
    made = net.pick(*_CHANNELS[3:], *_MANY[:6])
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
        made = net.pick(net.channels(x), net.channels(x), net.pick(*_CHANNELS[3:]))
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


# -- movements --------------------------------------------------------------------------------------------------------


def _as_tokens(net: Drawing, x: str) -> str:
    """The pixels of a map as tokens, dense layer, perhaps the map again."""
    (height, width), tokens = net.size(x), net.tokens(x)
    tokens = net.op("Relu", net.dense(tokens, net.dims(tokens)[2]))
    return net.image(tokens, height, width) if net.chance(0.6) else tokens


def _flattened(net: Drawing, x: str) -> str:
    """A map in NCHW in another shape: planes joined or cut, or groups of channels."""
    _, channels, height, width = net.dims(x)
    kind = net.pick("planes", "line", "groups", "swapped")
    if kind == "planes":
        return net.reshape(x, 1, 1, channels, height * width)
    if kind == "line":
        return net.reshape(x, 1, channels * height, width, 1)
    if kind == "groups" and channels % 4 == 0:
        return net.reshape(x, 4, channels // 4, height, width)
    return net.transpose(x, *net.pick((0, 2, 1, 3), (0, 3, 2, 1), (0, 1, 3, 2), (0, 2, 3, 1)))


def _regrouped(net: Drawing, x: str) -> str:
    """Planes of a map that become rows of several planes, and back; larger blocks of pixels than of two."""
    _, channels, height, width = net.dims(x)
    if net.chance(0.4):
        block = net.pick(3, 3, 4)
        return net.op("DepthToSpace", net.convolve(x, channels * block * block), blocksize=block, mode="CRD")
    rows = net.pick(*(rows for rows in (1, 2, 3, 4, 8) if channels % rows == 0 and rows < channels))
    length = channels * height * width // rows
    x = net.op("Relu", net.dense(net.reshape(x, 1, rows, length), length if rows > 1 and length <= 1024 else 16))
    return net.reshape(x, 1, channels, height, width) if net.dims(x)[2] == length else x


def _shuffled(net: Drawing, x: str) -> str:
    """Channels shuffled, pixels to channels, channels to pixels."""
    _, channels, height, width = net.dims(x)
    kind = net.pick("shuffle", "to depth", "to space")
    if kind == "to depth" and height % 2 == width % 2 == 0:
        return net.op("SpaceToDepth", x, blocksize=2)
    if kind == "to space" and channels % 4 == 0:
        return net.op("DepthToSpace", x, blocksize=2, mode=net.pick("CRD", "DCR"))
    groups = 2 if channels % 2 == 0 else 1
    y = net.transpose(net.reshape(x, 1, groups, channels // groups, height, width), 0, 2, 1, 3, 4)
    return net.reshape(y, 1, channels, height, width)


def _folded(net: Drawing, x: str) -> str:
    """Pixels of what enters, or of what a layer computed, become channels: SpaceToDepth, or slices that are joined."""
    if net.channels(x) >= 8:
        x = net.op("Relu", net.convolve(x, net.channels(x)))
    if net.chance(0.5):
        y = net.op("SpaceToDepth", x, blocksize=2)
    else:
        height, width = net.size(x)
        rows = [net.cut(x, first, height, 2, 2) for first in (0, 1)]
        y = net.concat(*(net.cut(part, first, width, 3, 2) for first in (0, 1) for part in rows))
    return net.convolve(net.op("Relu", net.convolve(y, 16)), 16)


def _heads(net: Drawing, x: str) -> str:
    """Tokens cut into heads and back, in rank 4."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (1, 2, 3, 4, 6, 8) if width % count == 0))
    y = net.transpose(net.reshape(x, 1, tokens, heads, width // heads), 0, 2, 1, 3)
    y = net.op("Relu", net.op("Mul", y, net.scalar(0.7)))
    return net.reshape(net.transpose(y, 0, 2, 1, 3), 1, tokens, width)


def _cut_heads(net: Drawing, x: str) -> str:
    """Tokens cut into heads, a dense layer over each, and back: nothing cancels."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (2, 3, 4, 6, 8, 12) if width % count == 0))
    y = net.reshape(x, 1, tokens, heads, width // heads)
    y = net.op("Relu", net.dense(net.transpose(y, 0, 2, 1, 3), net.pick(8, 16, width // heads)))
    return net.reshape(net.transpose(y, 0, 2, 1, 3), 1, tokens, -1)


def _columns(net: Drawing, x: str) -> str:
    """Attention as PyTorch has it: tokens in front of the batch, one below the other."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (2, 3, 4, 6, 8) if width % count == 0 and width // count >= 8))
    y = net.transpose(x, 1, 0, 2)

    def part() -> str:
        rows = net.reshape(net.dense(y, width), tokens, heads, width // heads)
        return net.reshape(net.transpose(rows, 1, 0, 2), 1, heads, tokens, width // heads)

    mixed = attention.attend(net, part(), part(), part())
    joined = net.reshape(net.transpose(mixed, 2, 0, 1, 3), tokens, width)
    return net.transpose(net.reshape(net.dense(joined, width), tokens, 1, width), 1, 0, 2)


def _planes(net: Drawing, x: str) -> str:
    """The planes of a map as rows, a dense layer over the pixels of each, and back: attention over channels."""
    _, channels, height, width = net.dims(x)
    y = net.op("Relu", net.dense(net.reshape(x, 1, 1, channels, height * width), height * width))
    return net.reshape(y, 1, channels, height, width)


def _windows(net: Drawing, x: str) -> str:
    """A map in channels last cut into windows and back."""
    _, channels, height, width = net.dims(x)
    side = next(each for each in (7, 8, 5, 4, 2, 1) if height % each == 0 and width % each == 0)
    down, across = height // side, width // side
    y = net.transpose(x, 0, 2, 3, 1)
    y = net.transpose(net.reshape(y, 1, down, side, across, side, channels), 0, 1, 3, 2, 4, 5)
    y = net.op("Relu", net.dense(net.reshape(y, down * across, side * side, channels), channels))
    if net.chance(0.4):
        return y
    y = net.transpose(net.reshape(y, 1, down, across, side, side, channels), 0, 1, 3, 2, 4, 5)
    return net.transpose(net.reshape(y, 1, height, width, channels), 0, 3, 1, 2)


def _swapped(net: Drawing, x: str) -> str:
    """Tokens and channels change places, a dense layer, and back: mixers."""
    y = net.transpose(x, 0, 2, 1)
    return net.transpose(net.op("Relu", net.dense(y, net.dims(y)[2])), 0, 2, 1)


# -- attention --------------------------------------------------------------------------------------------------------


def _product(net: Drawing, x: str) -> str:
    """Tokens times tokens, tokens times channels."""
    q, k = (net.dense(x, net.pick(16, 32, 64)) for _ in range(2))
    if net.dims(q) != net.dims(k):
        k = net.dense(k, net.dims(q)[2])
    scores = net.op("MatMul", q, net.transpose(k, 0, 2, 1))
    return net.op("MatMul", scores, net.dense(x, net.pick(16, 32, 64))) if net.chance(0.7) else scores


def _matmul(net: Drawing, x: str) -> str:
    """Two inputs, as many products of matrices as there are heads, and nothing else."""
    _, heads, _, depth = net.dims(x)
    other = net.input("y", 1, heads, depth, net.pick(4, 8, 16, 17, 24, 32, 49, 64, 100, 144, 196, 256))
    return net.op("MatMul", x, other)


def _scaled(net: Drawing, x: str) -> str:
    """Maps or tokens with constants: a number, one per channel, or one per element; slopes."""
    net.activation = "relu"
    shape = net.dims(x)
    for _ in range(2):
        constant = net.pick((1,), shape[-1:], shape[1:], (shape[1], *(1,) * (len(shape) - 2)))
        kind = net.pick("Add", "Mul", "Sub", "PRelu") if len(shape) == 4 else net.pick("Add", "Mul", "Sub")
        if kind == "PRelu":
            constant = (shape[1], 1, 1)
        x = net.op(kind, x, net.positive(*constant))
    return x


def _softmax(net: Drawing, x: str) -> str:
    return net.op("Softmax", x, axis=len(net.dims(x)) - 1)


def _norm(net: Drawing, x: str) -> str:
    return net.norm_last(x)


def _channel_norm(net: Drawing, x: str) -> str:
    return net.transpose(net.norm_last(net.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def _perceptron(net: Drawing, x: str) -> str:
    return net.op("Add", x, attention.perceptron(net, x))


def _headed(net: Drawing, x: str) -> str:
    """Self-attention of as many heads as people use."""
    _, tokens, width = net.dims(x)
    heads = net.pick(*(count for count in (1, 2, 3, 4, 6, 8) if width % count == 0 and width // count >= 8))
    size = width // heads

    def part(y: str) -> str:
        return net.transpose(net.reshape(net.dense(y, width), 1, tokens, heads, size), 0, 2, 1, 3)

    mixed = attention.attend(net, part(x), part(x), part(x))
    return net.dense(net.reshape(net.transpose(mixed, 0, 2, 1, 3), 1, tokens, width), width)


def _one_of(*blocks: Layer) -> Layer:
    def build(net: Drawing, x: str) -> str:
        block = net.pick(*blocks)
        net.blocks.append(block.__name__)
        return block(net, x)

    return build


# -- families ---------------------------------------------------------------------------------------------------------

Shape = Callable[[random.Random], tuple[int, ...]]


@dataclass(frozen=True)
class DrawFamily:
    """Draws that show one thing.

    Attributes:
        shape: of the input.
        build: the network behind it.
    """

    shape: Shape
    build: Layer


NETWORKS = "network"
"""The family of whole networks of the hunt's grammar."""
UNFUSED = "_o0"
"""Behind the name of a family: the same layers and blocks, all at O0, where each takes what it takes by itself."""
WHOLE: Mapping[str, OptimizeLevel] = MappingProxyType(
    {NETWORKS: OptimizeLevel.O2, NETWORKS + UNFUSED: OptimizeLevel.O0}
)
"""Such families, and how they are compiled."""

FAMILIES: Mapping[str, DrawFamily] = MappingProxyType(
    {
        "conv": DrawFamily(_map, _between(_dense_kernel)),
        "conv_int16": DrawFamily(_map, _between(_dense_kernel)),
        "patches": DrawFamily(_patched, _between(_patches)),
        "depthwise": DrawFamily(_map, _between(_depthwise)),
        "grouped": DrawFamily(_map, _between(_grouped)),
        "stack": DrawFamily(_map, _stack),
        "chain": DrawFamily(_link_map, _chain),
        "first": DrawFamily(_entering, _first),
        "views": DrawFamily(_views, _largest_of_views),
        "transposed": DrawFamily(_map, _between(_transposed)),
        "elementwise": DrawFamily(_map, _between(_two_maps)),
        "elementwise_int16": DrawFamily(_map, _between(_two_maps)),
        "pool_int16": DrawFamily(_map, _between(_pool)),
        "concat_int16": DrawFamily(_map, _between(_concat)),
        "stack_int16": DrawFamily(_map, _stack),
        "body_int16": DrawFamily(_even_map, _between(_one_of(*maps.BODIES))),
        "broadcast": DrawFamily(_map, _between(_broadcast)),
        "activation": DrawFamily(_map, _between(_activation)),
        "row": DrawFamily(_maps, _row),
        "gate": DrawFamily(_gate, _between(_gated)),
        "pool": DrawFamily(_map, _between(_pool)),
        "reduce": DrawFamily(_map, _between(_reduce)),
        "global": DrawFamily(_map, _between(_global)),
        "resize": DrawFamily(_map, _between(_resize)),
        "concat": DrawFamily(_map, _between(_concat)),
        "image": DrawFamily(_image, _of_image),
        "ladder": DrawFamily(_rung, _ladder),
        "ladder_int16": DrawFamily(_rung, _ladder),
        "split": DrawFamily(_map, _between(_split)),
        "cut": DrawFamily(_map, _between(_cut)),
        "tokens": DrawFamily(_narrow_map, _between(_as_tokens)),
        "flattened": DrawFamily(_narrow_map, _between(_flattened)),
        "regrouped": DrawFamily(_small_map, _between(_regrouped)),
        "shuffled": DrawFamily(_even_map, _between(_shuffled)),
        "folded": DrawFamily(_folding_map, _folded),
        "heads": DrawFamily(_tokens, _between_dense(_heads)),
        "cut_heads": DrawFamily(_tokens, _between_dense(_cut_heads)),
        "columns": DrawFamily(_few_tokens, _between_dense(_columns)),
        "planes": DrawFamily(_few_pixels, _between(_planes)),
        "windows": DrawFamily(_even_map, _between(_windows)),
        "swapped": DrawFamily(_tokens, _between_dense(_swapped)),
        "product": DrawFamily(_tokens, _between_dense(_product)),
        "matmul": DrawFamily(_matrices, _matmul),
        "scaled": DrawFamily(_small_map_or_tokens, _scaled),
        "softmax": DrawFamily(_tokens, _between_dense(_softmax)),
        "norm": DrawFamily(_tokens, _between_dense(_norm)),
        "channel_norm": DrawFamily(_narrow_map, _between(_channel_norm)),
        "perceptron": DrawFamily(_tokens, _between_dense(_perceptron)),
        "headed": DrawFamily(_tokens, _between_dense(_headed)),
        "token_block": DrawFamily(_tokens, _one_of(*attention.TOKEN_BLOCKS)),
        "map_attention": DrawFamily(_narrow_map, _between(_one_of(*attention.MAP_ATTENTION))),
        "body": DrawFamily(_even_map, _between(_one_of(*maps.BODIES))),
    }
)
"""What is drawn, by name."""

_WIDE = frozenset(
    {"conv_int16", "elementwise_int16", "pool_int16", "concat_int16", "stack_int16", "body_int16", "ladder_int16"}
)
_OF_ANY_SIZE = frozenset({"image", "ladder", "ladder_int16"})

OF_TOKENS = frozenset(
    {
        "heads",
        "columns",
        "swapped",
        "product",
        "softmax",
        "norm",
        "perceptron",
        "headed",
        "token_block",
        "windows",
        "map_attention",
    }
)
"""Families that the oldest march leaves to the CPU for the most part."""
