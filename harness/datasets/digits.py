"""scikit-learn's digits: 1,797 real handwritten digits of 8 x 8 pixels with 17 levels of gray."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from harness.datasets.base import Colour, ImageFormat, Images, sha256_of
from harness.datasets.stratified import StratifiedDataset, StratifiedOptions


class DigitsOptions(StratifiedOptions):
    """Size of the images and how the samples of each digit (174 at least) are shared out.

    Attributes:
        size: height and width in pixels; see :class:`Digits`.
        seed: of the shuffle before the cut.
        train, calibration, evaluation: images per digit.
    """

    size: int = Field(default=28, ge=8, le=512)
    train: int = Field(default=100, ge=0)
    calibration: int = Field(default=24, ge=1)
    evaluation: int = Field(default=50, ge=1)


class Digits(StratifiedDataset):
    """Digits, classes 0..9, white ink on black.

    Levels 0..16 become ``round(255 / 16 * level)``. Every pixel becomes a square of ``size // 8`` pixels a side;
    what is left to ``size`` is a black border, shared evenly (the odd pixel right and below). The default is MNIST's
    format.
    """

    Options = DigitsOptions
    version = 1

    def __init__(self, options: DigitsOptions) -> None:
        from sklearn.datasets import load_digits  # here, so that commands without data do not wait for it

        source = load_digits()
        levels, classes = source.images.astype(np.uint8), source.target.astype(np.int64)
        images = _enlarge(levels, options.size)
        self.image_format = ImageFormat(height=options.size, width=options.size, colour=Colour.GRAY)
        self._share_out(options, images, classes, sha256_of(levels, classes))


def _enlarge(levels: Images, size: int) -> Images:
    """(samples, 8, 8) with levels 0..16 to (samples, size, size, 1) with 0..255."""
    grays = np.rint(levels * (255 / 16)).astype(np.uint8)
    factor = size // 8
    before, after = (size - 8 * factor) // 2, (size - 8 * factor + 1) // 2
    squares = grays.repeat(factor, axis=1).repeat(factor, axis=2)
    return np.pad(squares, ((0, 0), (before, after), (before, after)))[..., np.newaxis]
