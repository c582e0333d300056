"""Normalisations that networks are trained with, and what a file says for or against each before any image runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import InputParameters
from engine.terms import InputType, Layout, NormType
from harness.onboarding.network_file import NetworkFile


@dataclass(frozen=True)
class Normalisation:
    """What is done to an image in 0..255 in front of the network: ``(x - mean) * scale``.

    Attributes:
        name: of mean and scale.
        colour: order of the channels.
        mean, scale: of red, green and blue, or of gray; empty for 0 and 1.
    """

    name: str
    colour: InputType
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"{self.colour.value} {self.name}"

    def input_parameters(self, network: NetworkFile) -> dict[str, Any]:
        """The group of the converter's YAML that says the same."""
        values: dict[str, Any] = {
            "input_name": network.input_name,
            "input_type_train": self.colour.value,
            "input_layout_train": network.layout.value,
            "input_shape": "x".join(map(str, network.shape)),
            **self.normalisation_keys(),
            "input_type_rt": self.colour.value,
            "input_layout_rt": Layout.NHWC.value,
        }
        InputParameters.model_validate(values)
        return values

    def normalisation_keys(self) -> dict[str, Any]:
        """Its keys of mean and scale; numbers in the order of the network's channels."""
        kind = {(False, False): NormType.NONE, (True, False): NormType.MEAN, (False, True): NormType.SCALE}
        found = kind.get((bool(self.mean), bool(self.scale)), NormType.MEAN_AND_SCALE)
        values: dict[str, Any] = {"norm_type": found.value}
        step = -1 if self.colour is InputType.BGR else 1
        for key, numbers in (("mean_value", self.mean), ("scale_value", self.scale)):
            if numbers:
                ordered = numbers[::step]
                values[key] = ordered[0] if len(set(ordered)) == 1 else " ".join(f"{number:.9g}" for number in ordered)
        return values

    def apply(self, images: NDArray[np.uint8], layout: Layout) -> NDArray[np.float32]:
        """What the network is fed: ``images``, uint8, RGB or gray, (images, height, width, channels), normalised."""
        mean = np.array(self.mean or (0.0,), np.float32)
        scale = np.array(self.scale or (1.0,), np.float32)
        values = (images.astype(np.float32) - mean) * scale
        if self.colour is InputType.BGR:
            values = values[..., ::-1]
        return np.ascontiguousarray(np.moveaxis(values, 3, 1) if layout is Layout.NCHW else values)

    def undo(self, values: NDArray[np.float32], layout: Layout) -> NDArray[np.uint8]:
        """The image that gives ``values`` under this normalisation, limited to what an image can hold."""
        images = np.moveaxis(values, 1, 3) if layout is Layout.NCHW else values
        if self.colour is InputType.BGR:
            images = images[..., ::-1]
        mean = np.array(self.mean or (0.0,), np.float32)
        scale = np.array(self.scale or (1.0,), np.float32)
        pixels: NDArray[np.uint8] = np.clip(np.rint(images / scale + mean), 0, 255).astype(np.uint8)
        return pixels


_IMAGENET = ((123.675, 116.28, 103.53), (1 / 58.395, 1 / 57.12, 1 / 57.375))
_CAFFE = (123.68, 116.78, 103.94)
_COLOUR: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ImageNet mean and deviation": _IMAGENET,
    "0..1": ((), (1 / 255,) * 3),
    "-1..1": ((127.5,) * 3, (1 / 127.5,) * 3),
    "0..255": ((), ()),
    "Caffe mean": (_CAFFE, ()),
    "Caffe mean, scale 0.017": (_CAFFE, (0.017,) * 3),
}
"""Mean and scale by name, of red, green and blue: torchvision's, YOLO's, TensorFlow's, none, and two of Caffe's."""
_GRAY: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "0..1": ((), (1 / 255,)),
    "MNIST mean and deviation": ((0.1307 * 255,), (1 / (0.3081 * 255),)),
    "-1..1": ((127.5,), (1 / 127.5,)),
    "0..255": ((), ()),
}


def normalisations(channels: int) -> list[Normalisation]:
    """All that are tried, the usual ones first."""
    if channels == 1:
        return [Normalisation(name, InputType.GRAY, *numbers) for name, numbers in _GRAY.items()]
    return [
        Normalisation(name, colour, *numbers)
        for colour in (InputType.RGB, InputType.BGR)
        for name, numbers in _COLOUR.items()
    ]


def conventional(network: NetworkFile, usual: str = "") -> tuple[str, str, bool]:
    """Name of the normalisation that the file speaks for, why, and whether that leaves no doubt.

    Args:
        network: as it was read.
        usual: name of the normalisation of networks with such a head; empty where there is none.
    """
    if "ultralytics" in (network.metadata.get("author", "") + network.metadata.get("description", "")).lower():
        return "0..1", "exported by Ultralytics, whose networks take 0..1", True
    if network.subtracted is not None:
        amount, operators = network.subtracted, " and ".join(network.begins_with)
        if abs(amount) > _LARGE:
            return "0..255", f"the network begins with {operators}, which subtracts {amount:.3g}", True
        if amount > _TINY:
            return "0..1", f"the network begins with {operators}, which subtracts {amount:.3g}", True
    if usual in {guess.name for guess in normalisations(network.channels)}:
        return usual, "usual for networks with such outputs", False
    if network.layout is Layout.NHWC:
        return "-1..1", "TensorFlow layout, for which -1..1 is usual", False
    if network.channels == 1:
        return "0..1", "usual for gray images", False
    return "ImageNet mean and deviation", "the usual choice without other evidence", False


_LARGE, _TINY = 2.0, 0.02
"""What is subtracted of images in 0..255 is above the one, of images in 0..1 between both."""
