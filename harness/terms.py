"""Closed choices that commands name before anything else is imported."""

from __future__ import annotations

from enum import StrEnum


class ReadMode(StrEnum):
    """Library that reads and resizes images."""

    OPENCV = "opencv"
    SKIMAGE = "skimage"


class Fit(StrEnum):
    """How an image is brought to the size of an input."""

    CROP = "crop"
    STRETCH = "stretch"
    PAD = "pad"
