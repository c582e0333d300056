"""Networks with large outputs: YOLOv8n, a U-Net, a text detector in the manner of PP-OCR."""

from __future__ import annotations

import onnx

from benchmarks.speed.structures.builder import Activation, Builder
from benchmarks.speed.structures.classifiers import inverted_residual

BOX_BINS, CLASSES = 64, 80


def yolov8n() -> onnx.ModelProto:
    """Backbone, path aggregation and decoupled heads on 320 x 320 pixels; the outputs are the heads' maps."""
    net = Builder("yolov8n", (1, 3, 320, 320))
    x = _swish(net, _swish(net, net.input, 3, 16, 3, 2), 16, 32, 3, 2)
    x = _swish(net, _c2f(net, x, 32, 32, 1, True), 32, 64, 3, 2)
    p3 = _c2f(net, x, 64, 64, 2, True)
    p4 = _c2f(net, _swish(net, p3, 64, 128, 3, 2), 128, 128, 2, True)
    p5 = _sppf(net, _c2f(net, _swish(net, p4, 128, 256, 3, 2), 256, 256, 1, True), 256)
    n4 = _c2f(net, net.op("Concat", net.upsample(p5, 2), p4, axis=1), 384, 128, 1, False)
    n3 = _c2f(net, net.op("Concat", net.upsample(n4, 2), p3, axis=1), 192, 64, 1, False)
    m4 = _c2f(net, net.op("Concat", _swish(net, n3, 64, 64, 3, 2), n4, axis=1), 192, 128, 1, False)
    m5 = _c2f(net, net.op("Concat", _swish(net, m4, 128, 128, 3, 2), p5, axis=1), 384, 256, 1, False)
    outputs = []
    for feature, channels in ((n3, 64), (m4, 128), (m5, 256)):
        for inner, out in ((64, BOX_BINS), (80, CLASSES)):
            y = _swish(net, _swish(net, feature, channels, inner, 3, 1), inner, inner, 3, 1)
            outputs.append(net.conv(y, inner, out, 1, 1, Activation.NONE))
    return net.finish(*outputs)


def _swish(net: Builder, x: str, inside: int, outside: int, kernel: int, stride: int) -> str:
    return net.conv(x, inside, outside, kernel, stride, Activation.SWISH)


def _c2f(net: Builder, x: str, inside: int, outside: int, blocks: int, residual: bool) -> str:
    half = outside // 2
    first, last = net.op("Split", _swish(net, x, inside, outside, 1, 1), outputs=2, axis=1, split=[half, half])
    parts = [first, last]
    for _ in range(blocks):
        y = _swish(net, _swish(net, parts[-1], half, half, 3, 1), half, half, 3, 1)
        parts.append(net.op("Add", parts[-1], y) if residual else y)
    return _swish(net, net.op("Concat", *parts, axis=1), half * len(parts), outside, 1, 1)


def _sppf(net: Builder, x: str, channels: int) -> str:
    parts = [_swish(net, x, channels, channels // 2, 1, 1)]
    for _ in range(3):
        parts.append(net.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return _swish(net, net.op("Concat", *parts, axis=1), channels * 2, channels, 1, 1)


def unet() -> onnx.ModelProto:
    """Four levels from 32 channels on, 256 x 256 pixels, transposed convolutions on the way up."""
    net = Builder("unet", (1, 3, 256, 256))
    x, channels, skips = net.input, 3, []
    for width in (32, 64, 128, 256):
        x = net.conv(net.conv(x, channels, width, 3), width, width, 3)
        skips.append((x, width))
        x, channels = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), width
    x, channels = net.conv(net.conv(x, channels, 512, 3), 512, 512, 3), 512
    for skip, width in reversed(skips):
        x = transposed(net, x, channels, width, 2)
        x = net.conv(net.conv(net.op("Concat", skip, x, axis=1), 2 * width, width, 3), width, width, 3)
        channels = width
    return net.finish(net.conv(x, channels, 21, 1, 1, Activation.NONE))


def transposed(net: Builder, x: str, inside: int, outside: int, factor: int) -> str:
    """A transposed convolution whose windows do not overlap."""
    weight = net.weights(inside, outside, factor, factor, fan_in=inside)
    bias = net.weights(outside, fan_in=100)
    sides = [factor, factor]
    return str(net.op("ConvTranspose", x, weight, bias, kernel_shape=sides, strides=sides))


DETECTOR_BLOCKS = (
    (3, 8, 8, False, False, 1),
    (3, 32, 16, False, False, 2),
    (3, 40, 16, False, False, 1),
    (5, 40, 24, True, False, 2),
    (5, 64, 24, True, False, 1),
    (3, 120, 40, False, True, 2),
    (3, 104, 40, False, True, 1),
    (3, 240, 56, True, True, 1),
    (3, 336, 56, True, True, 1),
    (5, 336, 80, True, True, 2),
    (5, 480, 80, True, True, 1),
)
"""Kernel, expanded channels, channels, squeeze and excite, hard swish, stride: half of MobileNetV3-large."""


def text_detector() -> onnx.ModelProto:
    """Half a MobileNetV3-large, a feature pyramid and a head for differentiable binarisation, 320 x 320 pixels."""
    net = Builder("text_detector", (1, 3, 320, 320))
    x, channels = net.conv(net.input, 3, 8, 3, 2, Activation.HARD_SWISH), 8
    levels = []
    for kernel, inside, out, squeeze, swish, stride in DETECTOR_BLOCKS:
        if stride == 2:
            levels.append((x, channels))
        x, channels = inverted_residual(net, x, channels, inside, out, kernel, stride, squeeze, swish), out
    levels = [*levels[1:], (x, channels)]
    merged = [net.conv(feature, width, 96, 1, 1, Activation.NONE) for feature, width in levels]
    for index in (2, 1, 0):
        merged[index] = net.op("Add", merged[index], net.upsample(merged[index + 1], 2))
    smooth = [net.conv(feature, 96, 24, 3, 1, Activation.NONE) for feature in merged]
    scaled = [feature if index == 0 else net.upsample(feature, 1 << index) for index, feature in enumerate(smooth)]
    y = net.conv(net.op("Concat", *reversed(scaled), axis=1), 96, 24, 3)
    y = net.op("Relu", transposed(net, y, 24, 24, 2))
    return net.finish(net.op("Sigmoid", transposed(net, y, 24, 1, 2)))
