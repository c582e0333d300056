"""Normalisations that networks are trained with, and what a file says for or against each before any image runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import InputParameters
from engine.terms import InputType, Layout, NormType
from harness.onboarding.exporters import Exporter, Family
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
        count, height, width, channels = images.shape
        shape = (channels, height, width) if layout is Layout.NCHW else (height, width, channels)
        fed = np.empty((count, *shape), np.float32)
        for place, image in enumerate(images):  # all at once would not stay in the CPU's caches
            values = (image.astype(np.float32) - mean) * scale
            if self.colour is InputType.BGR:
                values = values[..., ::-1]
            fed[place] = np.moveaxis(values, 2, 0) if layout is Layout.NCHW else values
        return fed

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
"""Mean and scale by name, of red, green and blue: torchvision's and Keras' mode ``torch``, YOLO's, TensorFlow's and
Inception's, none, Keras' mode ``caffe`` and TF-Slim's, and that of networks ported from Caffe with a deviation."""
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


@dataclass(frozen=True)
class Convention:
    """What the file alone speaks for.

    Attributes:
        guesses: the most usual first; others agree with the file too.
        reason: why.
        is_certain: whether that leaves no doubt.
    """

    guesses: tuple[Normalisation, ...]
    reason: str
    is_certain: bool = False


def conventional(network: NetworkFile, usual: str = "") -> Convention:
    """The normalisations that the file speaks for.

    Args:
        network: as it was read.
        usual: name of the normalisation of networks with such a head; empty where there is none.
    """
    tried = normalisations(network.channels)
    known = {str(guess): guess for guess in tried}

    def called(name: str) -> tuple[Normalisation, ...]:
        return tuple(guess for guess in tried if guess.name == name)

    if network.exporter is Exporter.ULTRALYTICS:
        return Convention(called("0..1"), "exported by Ultralytics, whose networks take 0..1", True)
    operators = " and ".join(network.begins_with)
    if network.scaled is not None and abs(network.scaled) < _SMALL_SCALE:
        return Convention(
            called("0..255"), f"the network begins with {operators}, which multiplies by {network.scaled:.3g}", True
        )
    if network.subtracted is not None:
        amount = network.subtracted
        reason = f"the network begins with {operators}, which subtracts {amount:.3g}"
        if abs(amount) > _LARGE:
            return Convention(called("0..255"), reason, True)
        if amount > _TINY:
            return Convention(called("0..1"), reason, True)
    if called(usual):
        return Convention(called(usual), "usual for networks with such outputs")
    if network.channels == 1:
        return Convention(tuple(tried), "usual for gray images")
    for family, name in _OF_FAMILY.items():
        if family is network.family:
            return Convention((known[name],), f"its layers are called as in Keras' {family.value}, which takes {name}")
    framework = network.exporter
    if framework not in _OF_EXPORTER:
        framework = Exporter.TENSORFLOW if network.layout is Layout.NHWC else Exporter.PYTORCH
    names = _OF_EXPORTER[framework]
    why = f"{network.exporter.value} wrote it" if framework is network.exporter else f"{network.layout.value} layout"
    return Convention(tuple(known[name] for name in names), f"{why}: {names[0]} is the most usual there")


_LARGE, _TINY = 2.0, 0.02
"""What is subtracted of images in 0..255 is above the one, of images in 0..1 between both."""
_SMALL_SCALE = 0.05
"""Factor below which what is multiplied is 0..255: 1/255, 1/127.5, and one over a deviation of about 58."""
_IMAGENET_NAME = "ImageNet mean and deviation"
_OF_EXPORTER: Mapping[Exporter, tuple[str, ...]] = {
    Exporter.PYTORCH: (f"rgb {_IMAGENET_NAME}", "rgb 0..1", "rgb -1..1"),
    Exporter.TENSORFLOW: ("rgb -1..1", "bgr Caffe mean", "rgb 0..1", f"rgb {_IMAGENET_NAME}", "rgb Caffe mean"),
    Exporter.CAFFE: ("bgr Caffe mean", "bgr Caffe mean, scale 0.017", "bgr -1..1", "bgr 0..255", "bgr 0..1"),
    Exporter.PADDLE: (f"rgb {_IMAGENET_NAME}", f"bgr {_IMAGENET_NAME}", "bgr -1..1", "rgb -1..1"),
    Exporter.YOLOV5: (f"rgb {_IMAGENET_NAME}", "rgb 0..1"),
}
"""What the networks of a framework take, the most usual first: torchvision and timm; Keras' modes ``tf``, ``caffe`` and
``torch``, and TF-Slim; Caffe's model zoo; PaddleClas and PaddleOCR, which reads BGR; YOLOv5's classifiers."""
_OF_FAMILY: Mapping[Family, str] = {
    Family.VGG: "bgr Caffe mean",
    Family.RESNET: "bgr Caffe mean",
    Family.DENSENET: f"rgb {_IMAGENET_NAME}",
    Family.RESNET_V2: "rgb -1..1",
    Family.XCEPTION: "rgb -1..1",
    Family.INCEPTION: "rgb -1..1",
    Family.MOBILENET: "rgb -1..1",
}
"""What ``preprocess_input`` of Keras' applications does. Networks that were trained further may take another one."""
