"""Blocks that attend: over the pixels of a map, over tokens, over learned queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.conformance.hunt.grammar.drawing import Drawing
from engine.conformance.hunt.grammar.maps import Block

TokenBlock = Callable[[Drawing, str], str]
"""Takes tokens, shape (1, tokens, width), and gives tokens."""


# -- attention over tokens -------------------------------------------------------------------------------------------


def attend(net: Drawing, q: str, k: str, v: str, bias: str = "", mask: str = "") -> str:
    """Heads, shape (batch, heads, tokens, size) each: scores scaled in one of three places, Softmax, mixture."""
    size = net.dims(q)[-1]
    way = net.pick("behind", "divided", "query")
    if way == "query":
        q = net.op("Mul", q, net.scalar(size**-0.5))
    scores = net.op("MatMul", q, net.transpose(k, 0, 1, 3, 2))
    if way == "behind":
        scores = net.op("Mul", scores, net.scalar(size**-0.5))
    if way == "divided":
        scores = net.op("Div", scores, net.scalar(size**0.5))
    for more in (bias, mask):
        scores = net.op("Add", scores, more) if more else scores
    return net.op("MatMul", net.softmax(scores, 3), v)


def _heads(net: Drawing, x: str, heads: int) -> str:
    """(batch, tokens, width) to (batch, heads, tokens, width / heads)."""
    batch, tokens, width = net.dims(x)
    return net.transpose(net.reshape(x, batch, tokens, heads, width // heads), 0, 2, 1, 3)


def _joined(net: Drawing, x: str) -> str:
    """The inverse of :func:`_heads`."""
    batch, heads, tokens, size = net.dims(x)
    return net.reshape(net.transpose(x, 0, 2, 1, 3), batch, tokens, heads * size)


def self_attention(net: Drawing, x: str, bias: str = "", mask: str = "") -> str:
    """Queries, keys and values from one layer (picked by Gather, Split or Slice) or from three."""
    batch, tokens, width = net.dims(x)
    heads = net.pick(1, 2)
    way = net.pick("gather", "gather", "split", "separate", "chunk")
    if way == "separate":
        q, k, v = (_heads(net, net.dense(x, width), heads) for _ in range(3))
    elif way == "chunk":
        q, k, v = (_heads(net, part, heads) for part in net.divide(net.dense(x, 3 * width), *[width] * 3, axis=2))
    else:
        joint = net.reshape(net.dense(x, 3 * width), batch, tokens, 3, heads, width // heads)
        joint = net.transpose(joint, 2, 0, 3, 1, 4)
        if way == "gather":
            q, k, v = (net.op("Gather", joint, net.constant(index, np.int64), axis=0) for index in range(3))
        else:
            q, k, v = (net.op("Squeeze", part, axes=[0]) for part in net.divide(joint, 1, 1, 1, axis=0))
    return net.dense(_joined(net, attend(net, q, k, v, bias, mask)), width)


def perceptron(net: Drawing, x: str) -> str:
    """Widen, activate, narrow, over the last axis."""
    width = net.dims(x)[-1]
    kind = net.pick("gelu", "gelu", "gelu", "relu", "silu")
    return net.dense(net.activate(net.dense(x, 2 * width), kind), width)


def vit(net: Drawing, x: str) -> str:
    """Attention and perceptron, normalised in front (ViT) or behind (DETR)."""
    if net.chance(0.75):
        x = net.op("Add", x, self_attention(net, net.norm_last(x)))
        return net.op("Add", x, perceptron(net, net.norm_last(x)))
    x = net.norm_last(net.op("Add", x, self_attention(net, x)))
    return net.norm_last(net.op("Add", x, perceptron(net, x)))


def mixer(net: Drawing, x: str) -> str:
    """Perceptrons over tokens and over channels."""
    across = net.transpose(perceptron(net, net.transpose(net.norm_last(x), 0, 2, 1)), 0, 2, 1)
    x = net.op("Add", x, across)
    return net.op("Add", x, perceptron(net, net.norm_last(x)))


def affine_mixer(net: Drawing, x: str) -> str:
    """ResMLP's: scale and shift in place of normalisation."""
    width = net.dims(x)[2]
    y = net.op("Add", net.op("Mul", x, net.positive(width)), net.normal(width, scale=0.1))
    y = net.transpose(net.dense(net.transpose(y, 0, 2, 1), net.dims(x)[1]), 0, 2, 1)
    return net.op("Add", x, net.op("Mul", y, net.positive(width)))


def decoder(net: Drawing, x: str) -> str:
    """Learned queries attend to themselves and to the tokens, as in DETR."""
    _, tokens, width = net.dims(x)
    count = net.pick(8, 10)
    places = net.normal(1, tokens, width) if net.chance(0.5) else ""
    queries = net.normal(1, count, width)
    target = net.normal(1, count, width, scale=0.5)
    heads = net.pick(1, 2)
    if net.chance(0.5):
        known = net.op("Add", target, queries)
        q, k = (_heads(net, net.dense(known, width), heads) for _ in range(2))
        mixed = attend(net, q, k, _heads(net, net.dense(target, width), heads))
        target = net.norm_last(net.op("Add", target, net.dense(_joined(net, mixed), width)))
    q = _heads(net, net.dense(net.op("Add", target, queries), width), heads)
    k = _heads(net, net.dense(net.op("Add", x, places) if places else x, width), heads)
    mixed = attend(net, q, k, _heads(net, net.dense(x, width), heads))
    y = net.norm_last(net.op("Add", target, net.dense(_joined(net, mixed), width)))
    return net.norm_last(net.op("Add", y, perceptron(net, y)))


TOKEN_BLOCKS: tuple[TokenBlock, ...] = (*(vit,) * 5, mixer, affine_mixer, decoder, decoder)


# -- attention over maps ---------------------------------------------------------------------------------------------


def c2psa(net: Drawing, x: str) -> str:
    """YOLO11's and YOLOv10's: a half of the channels attends over the pixels, by convolutions and a Split."""
    made = max(16, net.channels(x) // 8 * 8)
    half = made // 2
    kept, y = net.divide(net.layer(x, made, 1), half, half)
    y = net.op("Add", y, _position_attention(net, y))
    y = net.op("Add", y, net.convolve(net.layer(y, 2 * half, 1), half))
    return net.layer(net.concat(kept, y), made, 1)


def _position_attention(net: Drawing, x: str) -> str:
    channels, (height, width) = net.channels(x), net.size(x)
    heads = net.pick(1, 1, 2)
    size = channels // heads
    key, pixels = size // 2, height * width
    joint = net.reshape(net.convolve(x, heads * (2 * key + size)), 1, heads, 2 * key + size, pixels)
    q, k, v = net.divide(joint, key, key, size, axis=2)
    scores = net.op("Mul", net.op("MatMul", net.transpose(q, 0, 1, 3, 2), k), net.scalar(key**-0.5))
    mixed = net.op("MatMul", v, net.transpose(net.softmax(scores, 3), 0, 1, 3, 2))
    y = net.reshape(mixed, 1, channels, height, width)
    places = net.depthwise(net.reshape(v, 1, channels, height, width))
    return net.convolve(net.op("Add", y, places), channels)


def area_attention(net: Drawing, x: str) -> str:
    """YOLO12's: attention within areas of the map, tokens in the batch."""
    channels, (height, width) = net.channels(x) // 4 * 4, net.size(x)
    x = net.convolve(x, channels) if channels != net.channels(x) else x
    pixels, areas, heads = height * width, net.pick(1, 2, 4), net.pick(1, 2)
    if pixels % areas:
        areas = 1
    joint = net.transpose(net.reshape(net.convolve(x, 3 * channels), 1, 3 * channels, pixels), 0, 2, 1)
    joint = net.reshape(joint, areas, pixels // areas, heads, 3 * (channels // heads))
    joint = net.transpose(joint, 0, 2, 3, 1)
    size = channels // heads
    q, k, v = net.divide(joint, size, size, size, axis=2)
    scores = net.op("Mul", net.op("MatMul", net.transpose(q, 0, 1, 3, 2), k), net.scalar(size**-0.5))
    mixed = net.op("MatMul", v, net.transpose(net.softmax(scores, 3), 0, 1, 3, 2))
    back = net.transpose(mixed, 0, 3, 1, 2), net.transpose(v, 0, 3, 1, 2)
    y, places = (net.transpose(net.reshape(part, 1, height, width, channels), 0, 3, 1, 2) for part in back)
    y = net.convolve(net.op("Add", y, net.depthwise(places, net.pick(5, 7))), channels)
    x = net.op("Add", x, y)
    return net.op("Add", x, net.convolve(net.layer(x, 2 * channels, 1), channels))


def nonlocal_block(net: Drawing, x: str) -> str:
    """One head over all pixels in rank 3, as in non-local networks and BoTNet."""
    channels, (height, width) = net.channels(x), net.size(x)
    narrow = max(4, channels // 2)
    q, k, v = (net.reshape(net.convolve(x, narrow), 1, narrow, height * width) for _ in range(3))
    scores = net.softmax(net.op("MatMul", net.transpose(q, 0, 2, 1), k), 2)
    mixed = net.op("MatMul", scores, net.transpose(v, 0, 2, 1))
    y = net.reshape(net.transpose(mixed, 0, 2, 1), 1, narrow, height, width)
    return net.op("Add", net.convolve(y, channels), x)


def transposed_attention(net: Drawing, x: str) -> str:
    """Channels attend to channels, queries and keys of length 1, as in XCiT, EdgeNeXt and Restormer."""
    channels, (height, width) = net.channels(x), net.size(x)
    joint = net.depthwise(net.convolve(x, 3 * channels))
    q, k, v = (net.reshape(part, 1, 1, channels, height * width) for part in net.divide(joint, *[channels] * 3))
    if net.chance(0.6):
        q, k = (net.op("Div", part, _length(net, part)) for part in (q, k))
    scores = net.op("Mul", net.op("MatMul", q, net.transpose(k, 0, 1, 3, 2)), net.positive(1, 1, 1))
    mixed = net.reshape(net.op("MatMul", net.softmax(scores, 3), v), 1, channels, height, width)
    return net.op("Add", x, net.convolve(mixed, channels))


def _length(net: Drawing, x: str) -> str:
    """The Euclidean length over the last axis, as ``normalize`` is exported."""
    dims = net.dims(x)
    length = net.op("ReduceL2", x, axes=[-1], keepdims=1)
    low = net.clip(length, 1e-12, 1e9) if net.opset < 11 else net.op("Clip", length, net.scalar(1e-12))
    return net.op("Expand", low, net.ints(*dims))


def linear_attention(net: Drawing, x: str) -> str:
    """Relu of queries and keys, keys and values first, divided by the sum, as in EfficientViT."""
    channels, (height, width) = net.channels(x), net.size(x)
    joint = net.transpose(net.reshape(net.convolve(x, 3 * channels), 1, 1, 3 * channels, -1), 0, 1, 3, 2)
    q, k, v = net.divide(joint, *[channels] * 3, axis=3)
    q, k = net.op("Relu", q), net.op("Relu", k)
    mixed = net.op("MatMul", q, net.op("MatMul", net.transpose(k, 0, 1, 3, 2), v))
    total = net.op("MatMul", q, net.transpose(net.op("ReduceSum", k, axes=[2], keepdims=1), 0, 1, 3, 2))
    mixed = net.op("Div", mixed, net.op("Add", total, net.scalar(1e-3)))
    y = net.reshape(net.transpose(mixed, 0, 1, 3, 2), 1, channels, height, width)
    return net.op("Add", x, net.convolve(y, channels))


def separable_attention(net: Drawing, x: str) -> str:
    """One context vector, as in MobileViTv2."""
    channels, (height, width) = net.channels(x), net.size(x)
    line = net.reshape(x, 1, channels, height * width, 1)
    joint = net.convolve(line, 1 + 2 * channels, bias=True)
    query, key, value = net.divide(joint, 1, channels, channels)
    weights = net.softmax(query, 2)
    context = net.op("ReduceSum", net.op("Mul", key, weights), axes=[2], keepdims=1)
    mixed = net.op("Mul", net.op("Relu", value), context)
    return net.op("Add", x, net.reshape(net.convolve(mixed, channels, bias=True), 1, channels, height, width))


def mobile_vit(net: Drawing, x: str) -> str:
    """Pixels of 2 x 2 patches attend to those of the same place, as in MobileViT."""
    channels, (height, width) = net.channels(x), net.size(x)
    if height % 2 or width % 2:
        return nonlocal_block(net, x)
    rows, columns = height // 2, width // 2
    y = net.convolve(net.layer(x, channels), channels)
    y = net.transpose(net.reshape(y, channels * rows, 2, columns, 2), 0, 2, 1, 3)
    y = net.transpose(net.reshape(y, 1, channels, rows * columns, 4), 0, 3, 2, 1)
    y = vit(net, net.reshape(y, 4, rows * columns, channels))
    y = net.transpose(net.reshape(y, 1, 4, rows * columns, channels), 0, 3, 2, 1)
    y = net.transpose(net.reshape(y, channels * rows, columns, 2, 2), 0, 2, 1, 3)
    y = net.layer(net.reshape(y, 1, channels, height, width), channels, 1)
    return net.layer(net.concat(x, y), channels)


def swin(net: Drawing, x: str) -> str:
    """Attention in windows of the map on channels last, shifted or not, with a bias by place."""
    height, width = net.size(x)
    side = next(side for side in (4, 5, 3, 2, 1) if height % side == 0 and width % side == 0)
    shift = net.pick(0, side // 2)
    y = net.norm_last(net.transpose(x, 0, 2, 3, 1))
    skip = net.transpose(x, 0, 2, 3, 1)
    y = _rolled(net, y, shift)
    down, across, channels = height // side, width // side, net.channels(x)
    y = net.reshape(y, 1, down, side, across, side, channels)
    y = net.reshape(net.transpose(y, 0, 1, 3, 2, 4, 5), down * across, side * side, channels)
    mask = _mask(net, down * across, side) if shift and net.chance(0.6) else ""
    y = self_attention(net, y, net.normal(1, 1, side * side, side * side), mask)
    y = net.reshape(y, 1, down, across, side, side, channels)
    y = net.reshape(net.transpose(y, 0, 1, 3, 2, 4, 5), 1, height, width, channels)
    skip = net.op("Add", skip, _rolled(net, y, -shift))
    skip = net.op("Add", skip, perceptron(net, net.norm_last(skip)))
    return net.transpose(skip, 0, 3, 1, 2)


def _mask(net: Drawing, windows: int, side: int) -> str:
    shut = np.random.default_rng(windows).random((windows, 1, side * side, side * side)) < 0.3
    return net.constant(np.where(shut, -100.0, 0.0))


def _rolled(net: Drawing, x: str, shift: int) -> str:
    for axis in (1, 2) if shift else ():
        size = net.dims(x)[axis]
        head, tail = net.cut(x, 0, shift % size, axis), net.cut(x, shift % size, size, axis)
        x = net.concat(tail, head, axis=axis)
    return x


def pvt(net: Drawing, x: str) -> str:
    """Keys and values from a smaller map, as in PVT and SegFormer."""
    channels, (height, width) = net.channels(x), net.size(x)
    rate = 2 if height % 2 == width % 2 == 0 else 1
    tokens = net.tokens(x)
    normed = net.norm_last(tokens)
    small = net.image(normed, height, width)
    weight = net.normal(channels, channels, rate, rate, scale=0.2)
    bias = net.normal(channels, scale=0.1)
    small = net.op("Conv", small, weight, bias, kernel_shape=[rate] * 2, strides=[rate] * 2, pads=[0] * 4)
    few = net.norm_last(net.tokens(small))
    heads = net.pick(1, 2)
    q = _heads(net, net.dense(normed, channels), heads)
    both = net.reshape(net.dense(few, 2 * channels), 1, net.dims(few)[1], 2, heads, channels // heads)
    both = net.transpose(both, 2, 0, 3, 1, 4)
    k, v = (net.op("Gather", both, net.constant(index, np.int64), axis=0) for index in (0, 1))
    tokens = net.op("Add", tokens, net.dense(_joined(net, attend(net, q, k, v)), channels))
    wide = net.dense(net.norm_last(tokens), 2 * channels)
    wide = net.tokens(net.depthwise(net.image(wide, height, width)))
    tokens = net.op("Add", tokens, net.dense(net.activate(wide, "gelu"), channels))
    return net.image(tokens, height, width)


def metaformer(net: Drawing, x: str) -> str:
    """A mean over neighbours less the pixel, then a perceptron of convolutions: PoolFormer, EfficientFormer."""
    channels = net.channels(x)
    pooled = net.op("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, count_include_pad=0)
    y = net.op("Sub", pooled, x)
    y = net.op("Mul", y, net.positive(channels, 1, 1)) if net.chance(0.6) else y
    x = net.op("Add", x, y)
    inner = net.convolve(net.activate(net.convolve(x, 2 * channels), "gelu"), channels)
    return net.op("Add", x, net.op("Mul", net.positive(channels, 1, 1), inner))


def levit(net: Drawing, x: str) -> str:
    """Attention by convolutions with a bias by place and a HardSwish, as in LeViT and EfficientFormerV2."""
    channels, (height, width) = net.channels(x), net.size(x)
    pixels, key = height * width, 4
    q, k = (net.reshape(net.convolve(x, 2 * key), 1, 2, key, pixels) for _ in range(2))
    v = net.convolve(x, 2 * channels)
    flat = net.reshape(v, 1, 2, channels, pixels)
    scores = net.op("MatMul", net.transpose(q, 0, 1, 3, 2), k)
    scores = net.op("Add", net.op("Mul", scores, net.scalar(key**-0.5)), net.normal(1, 2, pixels, pixels))
    if net.chance(0.4):  # talking heads
        scores = net.convolve(scores, 2, bias=True)
    mixed = net.op("MatMul", net.softmax(scores, 3), net.transpose(flat, 0, 1, 3, 2))
    y = net.reshape(net.transpose(mixed, 0, 1, 3, 2), 1, 2 * channels, height, width)
    return net.op("Add", x, net.convolve(net.activate(y, "hard_swish"), channels))


MAP_ATTENTION: tuple[Block, ...] = (
    *(c2psa,) * 4,
    *(area_attention, swin, pvt, mobile_vit, metaformer) * 2,
    nonlocal_block,
    transposed_attention,
    linear_attention,
    separable_attention,
    levit,
)
