"""The networks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx

from benchmarks.speed.structures.classifiers import mobilenet_v2, mobilenet_v3_small, resnet_18
from benchmarks.speed.structures.dense import text_detector, unet, yolov8n
from benchmarks.speed.structures.sequences import lstm_recogniser, swin_stage, vit_tiny
from engine.errors import ConfigError


@dataclass(frozen=True)
class BenchStructure:
    """A network.

    Attributes:
        name: as users write it.
        make: builds the float model.
    """

    name: str
    make: Callable[[], onnx.ModelProto]


STRUCTURES: Mapping[str, BenchStructure] = MappingProxyType(
    {
        make.__name__: BenchStructure(make.__name__, make)
        for make in (
            mobilenet_v2,
            mobilenet_v3_small,
            resnet_18,
            yolov8n,
            unet,
            vit_tiny,
            swin_stage,
            text_detector,
            lstm_recogniser,
        )
    }
)
"""What ``python -m benchmarks.speed zoo`` measures."""


def build(name: str) -> onnx.ModelProto:
    """The float model of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in STRUCTURES:
        raise ConfigError(f"structure {name!r} is not known; known: {', '.join(STRUCTURES)}")
    return STRUCTURES[name].make()
