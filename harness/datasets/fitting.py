"""How an image is brought to the size of an input: the steps, and where its pixels end up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError
from harness.datasets.transformers import (
    CenterCrop,
    LineResize,
    PadResize,
    Resize,
    ShortSideResize,
    Transformer,
    line_width,
)
from harness.terms import Fit

SHORT_SIDE = 256 / 224
"""Short side in front of a centre crop, over the side of the crop: 256 and 224 in the documents."""
GRAY = 127.0
"""Level around images that are padded."""


def fit_steps(fit: Fit, size: tuple[int, int], gray: float = GRAY) -> tuple[Transformer, ...]:
    """Steps from an image of any size to ``size``.

    Args:
        fit: how.
        size: height and width in pixels.
        gray: level around padded images, on their own scale.

    Raises:
        ConfigError: a crop that is not square.
    """
    if fit is Fit.STRETCH:
        return (Resize(target_size=size),)
    if fit is Fit.PAD:
        return (PadResize(target_size=size, pad_value=gray),)
    if fit is Fit.LINE:
        return (LineResize(target_size=size, pad_value=gray),)
    if size[0] != size[1]:
        raise ConfigError(f"fit crop needs a square input, not {size[0]} x {size[1]}; use stretch or pad")
    return (ShortSideResize(short_size=round(size[0] * SHORT_SIDE)), CenterCrop(crop_size=size[0]))


def placement(
    fit: Fit, original: tuple[int, int], size: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor and offset, each float64 (x, y): a point ``p`` of the image lies at ``p * factor + offset`` after the fit.

    Args:
        fit: how.
        original: height and width of the image.
        size: height and width after the fit.
    """
    before, after = np.array(original[::-1], np.float64), np.array(size[::-1], np.float64)
    if fit is Fit.STRETCH:
        return after / before, np.zeros(2)
    if fit is Fit.PAD:
        factor = np.repeat((after / before).min(), 2)
        return factor, (after - np.floor(before * factor + 0.5)) // 2
    if fit is Fit.LINE:
        inner = line_width(original, size)
        return np.array([inner, size[0]], np.float64) / before, np.zeros(2)
    short = round(size[0] * SHORT_SIDE)
    factor = np.repeat(short / before.min(), 2)
    resized = np.maximum(short, np.floor(before * factor + 0.5))
    return factor, -((resized - after) // 2)
