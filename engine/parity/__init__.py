"""The original's quirks: undocumented behaviour, each with its evidence and the nodes that it decided."""

from engine.parity.decisions import decided, decline, is_declined, quirks_of, record
from engine.parity.quirks import (
    BIAS_CORRECTION_RACE,
    BORDER_AVERAGE,
    DEFAULT_FIRST_SAMPLE,
    HARD_SIGMOID,
    KL_STEPS,
    QUIRKS,
    RENAMED_MEAN_OUTPUT,
    UNDEFINED_ENTRIES,
    Quirk,
    quirk,
)

__all__ = [
    "BIAS_CORRECTION_RACE",
    "BORDER_AVERAGE",
    "DEFAULT_FIRST_SAMPLE",
    "HARD_SIGMOID",
    "KL_STEPS",
    "QUIRKS",
    "RENAMED_MEAN_OUTPUT",
    "UNDEFINED_ENTRIES",
    "Quirk",
    "decided",
    "decline",
    "is_declined",
    "quirk",
    "quirks_of",
    "record",
]
