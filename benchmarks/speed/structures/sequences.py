"""Networks that attend or recur: ViT-tiny, a stage of Swin-tiny, a recogniser of text lines with LSTM."""

from __future__ import annotations

import math

import numpy as np
import onnx

from benchmarks.speed.structures.builder import Builder

VIT_WIDTH, VIT_HEADS, VIT_LAYERS, VIT_TOKENS = 192, 3, 12, 197
SWIN_WIDTH, SWIN_HEADS, SWIN_SIDE, WINDOW = 96, 3, 56, 7


def vit_tiny() -> onnx.ModelProto:
    """Twelve layers of 192 channels and three heads on 197 tokens, 224 x 224 pixels."""
    net = Builder("vit_tiny", (1, 3, 224, 224))
    patches = _patches(net, 16, VIT_WIDTH)
    tokens = net.op("Transpose", net.op("Reshape", patches, net.shape(1, VIT_WIDTH, -1)), perm=[0, 2, 1])
    x = net.op("Concat", net.weights(1, 1, VIT_WIDTH, fan_in=1), tokens, axis=1)
    x = net.op("Add", x, net.weights(1, VIT_TOKENS, VIT_WIDTH, fan_in=100))
    for _ in range(VIT_LAYERS):
        x = net.op("Add", x, _attention(net, net.layer_norm(x, VIT_WIDTH), VIT_WIDTH, VIT_HEADS, VIT_TOKENS))
        x = net.op("Add", x, _perceptron(net, net.layer_norm(x, VIT_WIDTH), VIT_WIDTH))
    first = net.op("Gather", net.layer_norm(x, VIT_WIDTH), net.constant(np.array(0, np.int64)), axis=1)
    return net.finish(net.op("Gemm", first, net.weights(1000, VIT_WIDTH, fan_in=VIT_WIDTH), transB=1))


def _patches(net: Builder, side: int, width: int) -> str:
    weight = net.weights(width, 3, side, side, fan_in=3 * side * side)
    bias, sides = net.weights(width, fan_in=100), [side, side]
    return str(net.op("Conv", net.input, weight, bias, kernel_shape=sides, strides=sides))


def _attention(net: Builder, x: str, width: int, heads: int, tokens: int, stack: int = 1) -> str:
    """Self-attention of ``stack`` sequences, one MatMul for queries, keys and values."""
    size = width // heads
    joint = net.op("Reshape", net.dense(x, width, 3 * width), net.shape(stack, tokens, 3, heads, size))
    parts = net.op("Split", net.op("Transpose", joint, perm=[2, 0, 3, 1, 4]), outputs=3, axis=0, split=[1, 1, 1])
    query, key, value = (net.op("Squeeze", part, axes=[0]) for part in parts)
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.scalar(1 / math.sqrt(size)))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=3), value)
    joined = net.op("Reshape", net.op("Transpose", mixed, perm=[0, 2, 1, 3]), net.shape(stack, tokens, width))
    return net.dense(joined, width, width)


def _perceptron(net: Builder, x: str, width: int) -> str:
    return net.dense(net.gelu(net.dense(x, width, 4 * width)), 4 * width, width)


def swin_stage() -> onnx.ModelProto:
    """Patches and the first stage of Swin-tiny: two blocks of windowed attention, the second one shifted."""
    net = Builder("swin_stage", (1, 3, 224, 224))
    x = net.op("Transpose", _patches(net, 4, SWIN_WIDTH), perm=[0, 2, 3, 1])
    for shift in (0, WINDOW // 2):
        x = _swin_block(net, x, shift)
    return net.finish(net.layer_norm(x, SWIN_WIDTH))


def _swin_block(net: Builder, x: str, shift: int) -> str:
    count, tokens = SWIN_SIDE // WINDOW, WINDOW * WINDOW
    y = _rolled(net, net.layer_norm(x, SWIN_WIDTH), shift)
    y = net.op("Reshape", y, net.shape(1, count, WINDOW, count, WINDOW, SWIN_WIDTH))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.shape(count * count, tokens, SWIN_WIDTH))
    y = _attention(net, y, SWIN_WIDTH, SWIN_HEADS, tokens, stack=count * count)
    y = net.op("Reshape", y, net.shape(1, count, count, WINDOW, WINDOW, SWIN_WIDTH))
    y = net.op(
        "Reshape", net.op("Transpose", y, perm=[0, 1, 3, 2, 4, 5]), net.shape(1, SWIN_SIDE, SWIN_SIDE, SWIN_WIDTH)
    )
    x = net.op("Add", x, _rolled(net, y, -shift))
    return str(net.op("Add", x, _perceptron(net, net.layer_norm(x, SWIN_WIDTH), SWIN_WIDTH)))


def _rolled(net: Builder, x: str, shift: int) -> str:
    """``x`` moved towards its start by ``shift`` rows and columns, what leaves it comes in at the end."""
    for axis in (1, 2) if shift else ():
        cut = shift % SWIN_SIDE
        head = net.op("Slice", x, net.shape(0), net.shape(cut), net.shape(axis))
        tail = net.op("Slice", x, net.shape(cut), net.shape(SWIN_SIDE), net.shape(axis))
        x = net.op("Concat", tail, head, axis=axis)
    return x


def lstm_recogniser() -> onnx.ModelProto:
    """Convolutions over a text line of 32 x 320 pixels, two bidirectional LSTM layers, 97 classes per step."""
    net = Builder("lstm_recogniser", (1, 3, 32, 320))
    x, channels = net.input, 3
    for out, stride in ((32, (2, 2)), (64, (2, 2)), (128, (1, 1)), (128, (2, 1)), (256, (1, 1)), (256, (2, 1))):
        x, channels = net.conv(x, channels, out, 3, stride), out
    x = net.op("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1])
    x = net.op("Transpose", net.op("Squeeze", x, axes=[2]), perm=[2, 0, 1])
    for _ in range(2):
        x, channels = _lstm(net, x, channels, 96), 192
    return net.finish(net.op("Softmax", net.dense(x, channels, 97), axis=2))


def _lstm(net: Builder, x: str, inside: int, hidden: int) -> str:
    """Both directions side by side: (steps, 1, 2 * ``hidden``)."""
    weights = net.weights(2, 4 * hidden, inside, fan_in=inside), net.weights(2, 4 * hidden, hidden, fan_in=hidden)
    bias = net.weights(2, 8 * hidden, fan_in=100)
    y = net.op("LSTM", x, *weights, bias, direction="bidirectional", hidden_size=hidden)
    return str(net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.shape(80, 1, 2 * hidden)))
