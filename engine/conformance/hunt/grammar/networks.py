"""Whole networks from blocks: what people deploy, at 16 to 64 pixels and few channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

import numpy as np

from engine.conformance.hunt.grammar import heads, pyramids, sequences
from engine.conformance.hunt.grammar.attention import MAP_ATTENTION, TOKEN_BLOCKS
from engine.conformance.hunt.grammar.drawing import Drawing
from engine.conformance.hunt.grammar.maps import BODIES, STEMS, Block, down

Kind = Callable[[Drawing, str], list[str]]
"""Takes the first input and gives the outputs."""


MOST_NODES = 112
"""Of a network: the original takes a few seconds of processor time for it; a decoder of queries has 70 at least."""


def draw_network(seed: int, index: int) -> Drawing:
    """The network number ``index`` of a hunt with ``seed``: the same at every call and on every machine."""
    return next(
        net for attempt in count() if len((net := _drawn((seed, index, attempt))).model().graph.node) <= MOST_NODES
    )


def _drawn(key: tuple[int, ...]) -> Drawing:
    sizes = Drawing("sizes", (1,), key)
    kind = sizes.rng.choices([each for each, _ in KINDS], [weight for _, weight in KINDS])[0]
    shape = _shape(sizes)
    net = Drawing(
        "_".join(map(str, ("draw", *key))), _SHAPES[kind](sizes, shape) if kind in _SHAPES else shape, (*key, 1)
    )
    net.blocks.append(kind.__name__)
    net.output(*kind(net, "x"))
    return net


def _shape(sizes: Drawing) -> tuple[int, ...]:
    """Draw the shape of an image or a map: square, wide, or odd."""
    side = sizes.pick(16, 24, 32, 32, 48, 64)
    height, width = sizes.pick((side, side), (side, side), (side, max(8, side * 3 // 32 * 8)), (side, 32))
    if sizes.chance(0.15):
        height, width = height + sizes.pick(-1, 1, 3, 5), width + sizes.pick(-3, -1, 1, 2)
    return 1, sizes.pick(3, 3, 3, 3, 1, 8), height, width


def _step(net: Drawing, x: str, choices: Sequence[Block]) -> str:
    block = net.pick(*choices)
    net.blocks.append(block.__name__)
    return block(net, x)


def _encoded(net: Drawing, x: str, levels: int) -> list[str]:
    """A stem, and ``levels`` maps, each half as large as the one before it."""
    x = _step(net, x, STEMS)
    found = []
    for level in range(levels):
        if level:
            x = down(net, x)
        if net.chance(0.6):
            x = _step(net, x, BODIES)
        found.append(x)
    return found


def _small(net: Drawing, x: str, largest: int) -> str:
    """``x`` with at most ``largest`` pixels."""
    while net.size(x)[0] * net.size(x)[1] > largest:
        x = net.layer(x, net.channels(x), 3, 2)
    return x


# -- kinds of networks -------------------------------------------------------------------------------------------------


def classifier(net: Drawing, x: str) -> list[str]:
    """Stem, blocks, classes."""
    x = _step(net, _encoded(net, x, net.pick(1, 2))[-1], BODIES)
    return _end(net, x, heads.MAP_HEADS)


def detector(net: Drawing, x: str) -> list[str]:
    """Stem, levels, neck, boxes."""
    levels = _encoded(net, x, net.pick(1, 1, 2))
    if net.chance(0.35):
        levels[-1] = _step(net, _small(net, levels[-1], 144), MAP_ATTENTION)
    neck, head = net.pick(*pyramids.NECKS), net.pick(*heads.DETECTORS)
    levels = neck(net, levels) if len(levels) > 1 else levels
    net.blocks.append(head.__name__)
    return head(net, levels)


def segmenter(net: Drawing, x: str) -> list[str]:
    """Stem, levels, a U-Net or a pyramid, classes per pixel."""
    levels = _encoded(net, x, net.pick(2, 2, 2, 3))
    join = net.pick(pyramids.u_net, pyramids.u_net, pyramids.fpn)
    return _end(net, join(net, levels)[0], heads.PIXEL_HEADS)


def transformer(net: Drawing, x: str) -> list[str]:
    """Patches, a place for each, a class token or none, blocks, classes."""
    side = 8 if min(net.size(x)) >= 24 else 4
    patches = net.op(
        "Conv",
        x,
        net.normal(16, net.channels(x), side, side, scale=0.1),
        net.normal(16, scale=0.1),
        kernel_shape=[side] * 2,
        strides=[side] * 2,
        pads=[0] * 4,
    )
    height, width = net.size(patches)
    tokens = net.tokens(patches)
    first = net.chance(0.4)
    if first:
        tokens = net.concat(net.normal(1, 1, 16), tokens, axis=1)
    if net.chance(0.8):
        tokens = net.op("Add", tokens, net.normal(*net.dims(tokens), scale=0.2))
    count = net.dims(tokens)[1]
    for _ in range(net.pick(1, 1, 2)):
        tokens = _step(net, tokens, TOKEN_BLOCKS)
    whole = net.dims(tokens)[1] == count
    tokens = net.norm_last(tokens) if net.chance(0.7) else tokens
    if not whole:
        return [net.dense(tokens, 6), net.op("Sigmoid", net.dense(net.activate(net.dense(tokens, 16), "relu"), 4))]
    if first:
        picked = net.op("Squeeze", net.cut(tokens, 0, 1, 1), axes=[1]) if net.chance(0.5) else None
        picked = picked or net.op("Gather", tokens, net.constant(0, np.int64), axis=1)
        return [net.dense(picked, 10)]
    if net.chance(0.5):
        return _end(net, net.image(tokens, height, width), heads.PIXEL_HEADS)
    return [net.dense(net.op("ReduceMean", tokens, axes=[1], keepdims=0), 10)]


def hybrid(net: Drawing, x: str) -> list[str]:
    """Convolutions, attention over the map, classes or pixels."""
    x = _small(net, _encoded(net, x, net.pick(1, 2))[-1], 144)
    for _ in range(net.pick(1, 1, 2)):
        x = _step(net, x, MAP_ATTENTION)
    return _end(net, x, net.pick(heads.MAP_HEADS, heads.PIXEL_HEADS))


def query_detector(net: Drawing, x: str) -> list[str]:
    """DETR: convolutions, tokens, a decoder, boxes and classes of each query."""
    tokens = net.tokens(_small(net, _encoded(net, x, 1)[-1], 100))
    tokens = net.dense(tokens, 16) if net.dims(tokens)[2] != 16 else tokens
    if net.chance(0.5):
        tokens = _step(net, tokens, TOKEN_BLOCKS[:1])
    tokens = _step(net, tokens, TOKEN_BLOCKS[-1:])
    boxes = net.dense(net.op("Relu", net.dense(tokens, 16)), 4)
    return [net.dense(tokens, 6), net.op("Sigmoid", boxes)]


def recogniser(net: Drawing, x: str) -> list[str]:
    """A line of text: convolutions, rows pooled away, recurrence or attention over columns."""
    x = _encoded(net, x, net.pick(1, 2))[-1]
    while net.size(x)[1] > 16:
        x = net.layer(x, 16, 3, net.pick((2, 2), (1, 2)) if net.size(x)[0] > 2 else (1, 2))
    height = net.size(x)[0]
    match net.pick("mean", "pool", "rows"):
        case "mean":
            line = net.op("ReduceMean", x, axes=[2], keepdims=0)
        case "pool":
            pooled = net.op("MaxPool", x, kernel_shape=[height, 1], strides=[height, 1])
            line = net.op("Squeeze", pooled, axes=[2])
        case _:
            narrow = net.convolve(x, 4)
            line = net.reshape(narrow, 1, 4 * height, net.size(x)[1])
    return sequences.line_outputs(net, _lined(net, net.transpose(line, 0, 2, 1)))


def restorer(net: Drawing, x: str) -> list[str]:
    """Pictures: convolutions, blocks, enlarged or as large as they were, with the input added or not."""
    inside = net.layer(x, net.pick(8, 16), net.pick(3, 5))
    for _ in range(net.pick(1, 2)):
        inside = _step(net, inside, BODIES)
    channels, (height, width) = net.channels(x), net.size(x)
    if net.size(inside) != (height, width):
        return _end(net, inside, heads.PIXEL_HEADS)
    if net.chance(0.5):
        y = net.convolve(inside, channels, 3, bias=True)
        return [net.op(net.pick("Add", "Sub"), x, y)]
    factor = net.pick(2, 2, 3, 4)
    net.blocks.append("pixel_shuffle")
    y = pyramids.pixel_shuffle(net, net.convolve(inside, channels * factor**2, 3, bias=True), factor)
    if net.chance(0.3):
        y = net.op("Add", y, net.resize(x, factor * height, factor * width, "linear"))
    return [y]


def line(net: Drawing, x: str) -> list[str]:
    """Audio, sensors, text: shape (1, steps, width)."""
    return sequences.line_outputs(net, _lined(net, x))


def vector(net: Drawing, x: str) -> list[str]:
    """A row of numbers."""
    return sequences.vector_network(net, x)


def frames(net: Drawing, x: str) -> list[str]:
    """Several pictures in five dimensions."""
    return sequences.five_dimensions(net, x)


def pair(net: Drawing, x: str) -> list[str]:
    """Two inputs: two pictures compared or joined, or a picture with a vector or a gate."""
    other = net.input("y", *net.dims(x)) if net.chance(0.6) else ""
    if other:
        first, second = (net.layer(each, 12, 3, 2) for each in (x, other))
        match net.pick("Sub", "Add", "Mul", "concat", "correlation"):
            case "concat":
                both = net.concat(first, second)
            case "correlation":
                both = net.op("ReduceMean", net.op("Mul", first, second), axes=[1], keepdims=1)
            case operator:
                both = net.op(operator, first, second)
        return _end(net, _step(net, net.layer(both, 12), BODIES), net.pick(heads.MAP_HEADS, heads.PIXEL_HEADS))
    y = _step(net, _step(net, x, STEMS), BODIES)
    state = net.activate(net.dense(net.input("state", 1, 8), net.channels(y)), net.pick("relu", "sigmoid"))
    if net.chance(0.5):
        return _end(net, net.op("Mul", y, net.reshape(state, 1, -1, 1, 1)), heads.PIXEL_HEADS)
    flat = net.op("Flatten", net.mean_map(y), axis=1)
    return [net.dense(net.activate(net.dense(net.concat(flat, state), 16), "relu"), 4)]


def _lined(net: Drawing, x: str) -> str:
    if net.chance(0.5):
        x = net.activate(net.dense(x, 12), net.pick("relu", "gelu", "none"))
    for _ in range(net.pick(1, 1, 2)):
        x = _step(net, x, sequences.LINE_BLOCKS)
    return x


def _end(net: Drawing, x: str, choices: Sequence[heads.MapHead]) -> list[str]:
    head = net.pick(*choices)
    net.blocks.append(head.__name__)
    return head(net, x)


KINDS: tuple[tuple[Kind, int], ...] = (
    (detector, 26),
    (classifier, 20),
    (segmenter, 15),
    (hybrid, 11),
    (transformer, 8),
    (restorer, 5),
    (recogniser, 4),
    (query_detector, 3),
    (line, 3),
    (pair, 3),
    (vector, 1),
    (frames, 1),
)
"""Kinds of networks, with how many of a hundred draws are one."""

_SHAPES: Mapping[Kind, Callable[[Drawing, tuple[int, ...]], tuple[int, ...]]] = {
    line: lambda sizes, _: (1, sizes.pick(8, 12, 16), sizes.pick(8, 12)),
    vector: lambda sizes, _: (1, sizes.pick(8, 20, 48)),
    frames: lambda sizes, given: (1, sizes.pick(2, 4), 3, given[2], given[3]),
    recogniser: lambda sizes, given: (1, given[1], sizes.pick(16, 32), sizes.pick(32, 48, 64)),
}
