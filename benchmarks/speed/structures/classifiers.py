"""MobileNetV2, MobileNetV3-small and ResNet-18 on 224 x 224 pixels."""

from __future__ import annotations

import onnx

from benchmarks.speed.structures.builder import Activation, Builder

IMAGE = (1, 3, 224, 224)
CLASSES = 1000

V2_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, stride of the first block."""

V3_SMALL_BLOCKS = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
"""Kernel, expanded channels, channels, squeeze and excite, hard swish, stride."""


def mobilenet_v2() -> onnx.ModelProto:
    """Inverted residuals with ReLU6."""
    net = Builder("mobilenet_v2", IMAGE)
    x, channels = net.conv(net.input, 3, 32, 3, 2, Activation.RELU6), 32
    for expansion, out, blocks, stride in V2_STAGES:
        for block in range(blocks):
            step, inside = stride if block == 0 else 1, channels * expansion
            y = net.conv(x, channels, inside, 1, 1, Activation.RELU6) if expansion > 1 else x
            y = net.conv(y, inside, inside, 3, step, Activation.RELU6, groups=inside)
            y = net.conv(y, inside, out, 1, 1, Activation.NONE)
            x = net.op("Add", x, y) if step == 1 and out == channels else y
            channels = out
    x = net.conv(x, channels, 1280, 1, 1, Activation.RELU6)
    return net.finish(net.classifier(x, 1280, CLASSES))


def mobilenet_v3_small() -> onnx.ModelProto:
    """Inverted residuals with squeeze and excite, ReLU and hard swish."""
    net = Builder("mobilenet_v3_small", IMAGE)
    x, channels = net.conv(net.input, 3, 16, 3, 2, Activation.HARD_SWISH), 16
    for kernel, inside, out, squeeze, swish, stride in V3_SMALL_BLOCKS:
        x = inverted_residual(net, x, channels, inside, out, kernel, stride, squeeze, swish)
        channels = out
    x = net.conv(x, channels, 576, 1, 1, Activation.HARD_SWISH)
    pooled = net.conv(net.op("GlobalAveragePool", x), 576, 1024, 1, 1, Activation.HARD_SWISH)
    return net.finish(net.op("Flatten", net.conv(pooled, 1024, CLASSES, 1, 1, Activation.NONE), axis=1))


def inverted_residual(
    net: Builder, x: str, channels: int, inside: int, out: int, kernel: int, stride: int, squeeze: bool, swish: bool
) -> str:
    """One block of MobileNetV3."""
    activation = Activation.HARD_SWISH if swish else Activation.RELU
    y = net.conv(x, channels, inside, 1, 1, activation) if inside != channels else x
    y = net.conv(y, inside, inside, kernel, stride, activation, groups=inside)
    if squeeze:
        y = excite(net, y, inside)
    y = net.conv(y, inside, out, 1, 1, Activation.NONE)
    return str(net.op("Add", x, y)) if stride == 1 and out == channels else y


def squeezed(channels: int) -> int:
    """A quarter of ``channels`` as a multiple of 8, rounded to nearest, half up, but not below nine tenths of it.

    As in the published networks (torchvision's ``_make_divisible``).
    """
    quarter = channels // 4
    rounded = max(8, (quarter + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * quarter else rounded


def excite(net: Builder, x: str, channels: int) -> str:
    """Squeeze and excite with a hard sigmoid."""
    reduced = squeezed(channels)
    gate = net.conv(net.op("GlobalAveragePool", x), channels, reduced)
    gate = net.conv(gate, reduced, channels, 1, 1, Activation.NONE)
    return str(net.op("Mul", x, net.op("HardSigmoid", gate, alpha=1 / 6, beta=0.5)))


def resnet_18() -> onnx.ModelProto:
    """Basic blocks of two 3 x 3 convolutions."""
    net = Builder("resnet_18", IMAGE)
    x = net.conv(net.input, 3, 64, 7, 2)
    x, channels = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 64
    for out in (64, 128, 256, 512):
        for block in range(2):
            step = 2 if block == 0 and out > 64 else 1
            y = net.conv(net.conv(x, channels, out, 3, step), out, out, 3, 1, Activation.NONE)
            if step > 1 or channels != out:
                x = net.conv(x, channels, out, 1, step, Activation.NONE)
            x, channels = net.op("Relu", net.op("Add", y, x)), out
    return net.finish(net.classifier(x, 512, CLASSES))
