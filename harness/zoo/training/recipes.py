"""Per bundled model: architecture, data, optimisation, and what its card says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import nn

from harness.zoo.training.networks import LeNet, MobileNet, ResNet8, UNet, Yolo

ANCHORS: tuple[dict[str, Any], ...] = (
    {"stride": 8, "anchors": [[14.0, 26.0], [24.0, 30.0]]},
    {"stride": 16, "anchors": [[22.0, 40.0], [35.0, 40.0]]},
)
"""Detector heads: typical digit sizes, small ones on the fine map."""


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    Attributes:
        network: architecture.
        task: as in the card.
        dataset: dataset card.
        metric: metric name and options of the card.
        outputs: names of the ONNX outputs.
        description: sentence of the card.
        tags: tags of the card.
        epochs: passes over the training split.
        batch: images per step.
        rate: peak learning rate of the one-cycle schedule.
        images: (calibration, evaluation) counts of the card.
    """

    network: type[nn.Module]
    task: str
    dataset: str
    metric: Mapping[str, Any]
    outputs: tuple[str, ...]
    description: str
    tags: tuple[str, ...]
    epochs: int
    batch: int
    rate: float
    images: tuple[int, int]


_TOP1: Mapping[str, Any] = MappingProxyType({"name": "top1"})
_DETECTOR: Mapping[str, Any] = MappingProxyType(
    {"name": "map50", "options": {"classes": 10, "heads": [dict(head) for head in ANCHORS]}}
)
_SEGMENTER: Mapping[str, Any] = MappingProxyType({"name": "miou", "options": {"classes": 11}})


def _digits(network: type[nn.Module], description: str, tags: tuple[str, ...], epochs: int) -> Recipe:
    return Recipe(
        network, "classification", "mnist", _TOP1, ("logits",), description, tags, epochs, 64, 6e-3, (300, 1200)
    )


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "mnist_lenet": _digits(
            LeNet, "Two 5x5 convolutions with max pooling and two dense layers.", ("mnist", "dense"), 40
        ),
        "mnist_resnet8": _digits(
            ResNet8, "A stem and three residual blocks, global average pooling.", ("mnist", "residual"), 24
        ),
        "mnist_mobilenet": _digits(
            MobileNet,
            "Depthwise-separable convolutions with ReLU6, global average pooling.",
            ("mnist", "depthwise", "relu6"),
            32,
        ),
        "scene_yolo": Recipe(
            Yolo,
            "detection",
            "scenes",
            _DETECTOR,
            ("head8", "head16"),
            "Two-scale anchor detector: SiLU, nearest-neighbour upsampling, concatenation; raw heads.",
            ("scenes", "silu", "resize", "concat"),
            12,
            32,
            5e-3,
            (100, 300),
        ),
        "scene_unet": Recipe(
            UNet,
            "segmentation",
            "scenes",
            _SEGMENTER,
            ("logits",),
            "Encoder and decoder with skips: max pooling, transposed convolutions, concatenation.",
            ("scenes", "conv_transpose", "concat"),
            10,
            16,
            6e-3,
            (100, 300),
        ),
    }
)
