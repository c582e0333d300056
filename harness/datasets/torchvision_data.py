"""Classification data sets of torchvision, from files that are there: nothing is downloaded (extra ``zoo``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from engine.errors import CalibrationDataError, ConfigError, MissingError
from harness.datasets.base import ArraySplit, Colour, ImageFormat, SplitDataset, sha256_of
from harness.datasets.torchvision_import import import_torchvision
from harness.extras import how_to_install
from harness.files import paths
from harness.files.strict_yaml import StrictModel


class TorchvisionOptions(StrictModel):
    """Which data set, and how many of its samples.

    Attributes:
        dataset: class of ``torchvision.datasets``.
        root: folder that torchvision finds it in; absolute, or relative to the folder of external data.
        seed: of the draw.
        calibration: samples drawn from the training part.
        evaluation: samples drawn from the test part.
    """

    dataset: Literal["MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100"]
    root: Path
    seed: int = Field(default=2024, ge=0, lt=2**32)
    calibration: int = Field(default=500, ge=1)
    evaluation: int = Field(default=2000, ge=1)


class TorchvisionData(SplitDataset):
    """Images as torchvision gives them: 28 x 28 gray, or 32 x 32 RGB."""

    Options = TorchvisionOptions
    version = 1

    def __init__(self, options: TorchvisionOptions) -> None:
        splits = {
            "calibration": _draw("calibration", options, train=True, count=options.calibration),
            "evaluation": _draw("evaluation", options, train=False, count=options.evaluation),
        }
        height, width, channels = splits["calibration"].pixels.shape[1:]
        colour = Colour.GRAY if channels == 1 else Colour.RGB
        self.image_format = ImageFormat(height=height, width=width, colour=colour)
        content = {name: sha256_of(split.pixels, split.classes) for name, split in splits.items()}
        self._splits = splits
        self.digest = self._digest(options.model_copy(update={"root": Path()}), {"content": content})


def _draw(name: str, options: TorchvisionOptions, *, train: bool, count: int) -> ArraySplit:
    """``count`` samples of one part, drawn without replacement, in the order of the part."""
    source = _open(options, train)
    images = np.asarray(source.data, np.uint8)
    classes = np.asarray(source.targets, np.int64)
    if count > len(images):
        raise ConfigError(
            f"dataset torchvision {options.dataset}: {name}: {count} requested, but there are {len(images)}"
        )
    chosen = np.sort(np.random.RandomState(options.seed).choice(len(images), count, replace=False))
    pixels = images[chosen]
    return ArraySplit(name, pixels[..., np.newaxis] if pixels.ndim == 3 else pixels, classes[chosen])


def _open(options: TorchvisionOptions, train: bool) -> Any:
    try:
        datasets = import_torchvision().datasets
    except ImportError as error:
        raise MissingError(f"torchvision cannot be imported ({error}): {how_to_install('zoo')}") from error
    root = paths.external_data(options.root)
    try:
        return getattr(datasets, options.dataset)(str(root), train=train, download=False)
    except (RuntimeError, OSError) as error:
        raise CalibrationDataError(
            f"{root}: torchvision finds no {options.dataset} there ({error}); unpack it, or set PTQLAB_DATA"
        ) from error
