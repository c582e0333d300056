"""The bundled architectures, small enough to train in minutes and to live in a repository."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def conv_bn(
    inputs: int, outputs: int, kernel: int, activation: nn.Module, stride: int = 1, group: int = 1
) -> nn.Module:
    """Convolution that keeps the map's size (at stride 1), batch normalisation, activation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=group, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), activation)


class LeNet(nn.Sequential):
    """Two convolutions with max pooling, two dense layers."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 12, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(600, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )


class ResidualBlock(nn.Module):
    """Two convolutions whose sum with the input, projected where shapes differ, is rectified."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_bn(inputs, outputs, 3, nn.ReLU(), stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        same = inputs == outputs and stride == 1
        projection = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity() if same else projection

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet8(nn.Sequential):
    """A stem and three residual blocks."""

    def __init__(self) -> None:
        super().__init__(
            conv_bn(1, 16, 3, nn.ReLU(), stride=2),
            ResidualBlock(16, 16, 1),
            ResidualBlock(16, 32, 2),
            ResidualBlock(32, 64, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )


class MobileNet(nn.Sequential):
    """Depthwise-separable convolutions with ReLU6 and global pooling."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [conv_bn(1, 16, 3, nn.ReLU6(), stride=2)]
        for inputs, outputs, stride in ((16, 32, 1), (32, 48, 2), (48, 64, 1), (64, 96, 1)):
            layers.append(conv_bn(inputs, inputs, 3, nn.ReLU6(), stride, group=inputs))
            layers.append(conv_bn(inputs, outputs, 1, nn.ReLU6()))
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10))


class Yolo(nn.Module):
    """Two-scale detector: SiLU convolutions, a nearest-neighbour top-down path, raw heads at strides 8 and 16.

    Args:
        anchors: per cell and scale.
        classes: number of classes.
    """

    def __init__(self, anchors: int = 2, classes: int = 10) -> None:
        super().__init__()
        outputs = anchors * (5 + classes)
        self.stem = nn.Sequential(
            conv_bn(3, 12, 3, nn.SiLU(), 2), conv_bn(12, 24, 3, nn.SiLU(), 2), conv_bn(24, 24, 3, nn.SiLU())
        )
        self.stage8 = nn.Sequential(conv_bn(24, 48, 3, nn.SiLU(), 2), conv_bn(48, 48, 3, nn.SiLU()))
        self.stage16 = nn.Sequential(conv_bn(48, 64, 3, nn.SiLU(), 2), conv_bn(64, 64, 3, nn.SiLU()))
        self.lateral = conv_bn(64, 32, 1, nn.SiLU())
        self.up = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.merge = conv_bn(80, 48, 3, nn.SiLU())
        self.head8 = nn.Conv2d(48, outputs, 1)
        self.head16 = nn.Conv2d(64, outputs, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.stage8(self.stem(x))
        coarse = self.stage16(fine)
        merged = self.merge(torch.cat([self.up(self.lateral(coarse)), fine], 1))
        return self.head8(merged), self.head16(coarse)


class UNet(nn.Module):
    """Encoder and decoder with skips: transposed convolutions upwards, logits per pixel."""

    def __init__(self, classes: int = 11, base: int = 12) -> None:
        super().__init__()
        sizes = (base, 2 * base, 4 * base, 4 * base)
        self.down = nn.ModuleList(
            nn.Sequential(conv_bn(i, o, 3, nn.ReLU()), conv_bn(o, o, 3, nn.ReLU()))
            for i, o in zip((3, *sizes[:-1]), sizes, strict=True)
        )
        self.pool = nn.MaxPool2d(2)
        pairs = list(zip(reversed(sizes), reversed(sizes[:-1]), strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in pairs)
        self.merge = nn.ModuleList(conv_bn(2 * o, o, 3, nn.ReLU()) for _, o in pairs)
        self.classify = nn.Conv2d(base, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else self.pool(x))
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips[:-1]), strict=True):
            x = merge(torch.cat([up(x), skip], 1))
        out: Tensor = self.classify(x)
        return out
