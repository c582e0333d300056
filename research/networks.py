"""Whole networks of the corpus that are named rather than spelled out, in the corpus' own layer language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Layers = list[dict[str, Any]]


def _conv(name: str, source: str, channels: int, kernel: int = 3, **options: Any) -> dict[str, Any]:
    return {"op": "conv", "n": name, "i": [source], "cout": channels, "k": kernel, "act": "relu", **options}


def resnet18() -> Layers:
    """ResNet-18 (torchvision's layer order)."""
    layers = [_conv("stem", "data", 64, 7, s=2), {"op": "maxpool", "n": "x", "i": ["stem"], "k": 3, "s": 2, "p": 1}]
    source, width = "x", 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            skip = source
            layers.append(_conv(f"{name}a", source, channels, s=stride))
            layers.append(_conv(f"{name}b", f"{name}a", channels, act=None))
            if channels != width or stride != 1:
                skip = f"{name}d"
                layers.append(_conv(skip, source, channels, 1, s=stride, act=None))
            layers.append({"op": "add", "n": name, "i": [f"{name}b", skip], "act": "relu"})
            source, width = name, channels
    return [*layers, {"op": "gap", "n": "gap", "i": [source]}, _conv("fc", "gap", 1000, 1, act=None)]


def squeezenet1_1() -> Layers:
    """SqueezeNet 1.1 (torchvision's layer order)."""
    layers = [_conv("stem", "data", 64, s=2, p=0), {"op": "maxpool", "n": "p0", "i": ["stem"], "k": 3, "s": 2}]
    source = "p0"
    for index, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        expand = 4 * squeeze
        name = f"f{index}"
        layers += [
            _conv(f"{name}s", source, squeeze, 1),
            _conv(f"{name}a", f"{name}s", expand, 1),
            _conv(f"{name}b", f"{name}s", expand, 3),
            {"op": "concat", "n": name, "i": [f"{name}a", f"{name}b"]},
        ]
        source = name
        if index in (1, 3):
            layers.append({"op": "maxpool", "n": f"p{index}", "i": [name], "k": 3, "s": 2})
            source = f"p{index}"
    return [*layers, _conv("head", source, 1000, 1), {"op": "gap", "n": "gap", "i": ["head"]}]


def unet256(base: int = 16) -> Layers:
    """The U-Net of the corpus: four levels, bilinear and transposed upsampling in turn."""
    layers = [_conv("e0a", "data", base), _conv("e0b", "e0a", base), {"op": "maxpool", "n": "p0", "i": ["e0b"]}]
    source = "p0"
    for level in (1, 2, 3):
        layers += [_conv(f"e{level}a", source, base << level), _conv(f"e{level}b", f"e{level}a", base << level)]
        layers.append({"op": "maxpool", "n": f"p{level}", "i": [f"e{level}b"]})
        source = f"p{level}"
    layers += [_conv("m0", source, base << 4), _conv("m1", "m0", base << 4)]
    source = "m1"
    for level in (3, 2, 1, 0):
        if level % 2:
            layers.append({"op": "deconv", "n": f"u{level}", "i": [source], "k": 2, "s": 2, "cout": base << level})
        else:
            layers.append({"op": "resize", "n": f"r{level}", "i": [source], "f": 2})
            layers.append(_conv(f"u{level}", f"r{level}", base << level, 1))
        layers.append({"op": "concat", "n": f"k{level}", "i": [f"u{level}", f"e{level}b"]})
        layers += [_conv(f"d{level}a", f"k{level}", base << level), _conv(f"d{level}b", f"d{level}a", base << level)]
        source = f"d{level}b"
    return [*layers, _conv("seg", source, 8, 1, act=None)]


_LITE0_STAGES = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
"""Expansion, channels, repeats, kernel and first stride of each stage."""


def efficientnet_lite0() -> Layers:
    """EfficientNet-Lite0."""
    layers = [_conv("stem", "data", 32, s=2)]
    source, width = "stem", 32
    for stage, (expand, channels, repeats, kernel, first_stride) in enumerate(_LITE0_STAGES):
        for block in range(repeats):
            name, stride = f"s{stage}b{block}", first_stride if block == 0 else 1
            inner = source
            if expand > 1:
                layers.append(_conv(f"{name}e", source, width * expand, 1))
                inner = f"{name}e"
            layers.append(_conv(f"{name}d", inner, width * expand, kernel, s=stride, g="dw"))
            layers.append(_conv(f"{name}p", f"{name}d", channels, 1, act=None))
            previous, source = source, f"{name}p"
            if stride == 1 and channels == width:
                layers.append({"op": "add", "n": name, "i": [f"{name}p", previous]})
                source = name
            width = channels
    layers.append(_conv("head", source, 1280, 1))
    return [*layers, {"op": "gap", "n": "gap", "i": ["head"]}, _conv("fc", "gap", 1000, 1, act=None)]


NETWORKS: Mapping[str, Callable[[], Layers]] = MappingProxyType(
    {
        "resnet18": resnet18,
        "squeezenet1_1": squeezenet1_1,
        "unet256": unet256,
        "efficientnet_lite0.onnx": efficientnet_lite0,
    }
)
"""Layers by the name that a row's ``net`` gives."""
