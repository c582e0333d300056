"""Closed choices that commands name before anything else is imported."""

from __future__ import annotations

from enum import StrEnum


class ReadMode(StrEnum):
    """Library that reads and resizes images."""

    OPENCV = "opencv"
    SKIMAGE = "skimage"


class Fit(StrEnum):
    """How an image is brought to the size of an input.

    Attributes:
        CROP: in proportion, the middle cut out.
        STRETCH: whatever the proportions.
        PAD: in proportion, gray around it.
        LINE: in proportion to the height, gray on the right; lines that are too long are squeezed (PaddleOCR).
    """

    CROP = "crop"
    STRETCH = "stretch"
    PAD = "pad"
    LINE = "line"
