"""The chips: arithmetic, limits, toolchain and what was measured, as data; one file per chip."""

from engine.chips.chip import Chip, ChipFamily, GraphRules, Limits, ToolchainName
from engine.chips.registry import (
    CHIPS,
    DEFAULT_MARCH,
    HB_COMPILE_MARCHES,
    HB_MAPPER_MARCHES,
    MEASURED_MARCHES,
    March,
    load_chip,
    marches_where,
)

__all__ = [
    "CHIPS",
    "DEFAULT_MARCH",
    "HB_COMPILE_MARCHES",
    "HB_MAPPER_MARCHES",
    "MEASURED_MARCHES",
    "Chip",
    "ChipFamily",
    "GraphRules",
    "Limits",
    "March",
    "ToolchainName",
    "load_chip",
    "marches_where",
]
