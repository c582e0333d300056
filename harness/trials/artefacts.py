"""What a trial hands from stage to stage and keeps a digest of."""

from __future__ import annotations

from enum import StrEnum

DIGITS = 24
"""Hexadecimal digits of a digest: 96 bits."""


class Artefact(StrEnum):
    """The artefacts, in the order in which it comes about."""

    SOURCE = "source model"
    ORIGINAL = "original_float"
    FOLDED = "folded"
    CALIBRATION_IMAGES = "calibration images"
    EVALUATION_IMAGES = "evaluation images and labels"
    FLOAT_OUTPUTS = "float outputs"
    OPTIMIZED = "optimized_float"
    PLACED = "placed"
    CALIBRATED = "calibrated"
    QUANTIZED = "quantized"
    FOOTPRINT = "footprint"
    OUTPUTS = "outputs"
