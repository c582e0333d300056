"""The conversion: the stage runner, the stages in order, and the tables that users read.

Names are looked up on first use, so that a stage that imports the runner does not depend on all of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.exports import lazily

if TYPE_CHECKING:
    from engine.convert.checker import CHECK_FOLDER, Draft, check, check_configured
    from engine.convert.converter import ConversionResult, Phase, convert
    from engine.convert.pipeline import conversion
    from engine.convert.refusals import refuse_bare_rectifiers, refuse_cpu_operators
    from engine.convert.requests import placement_options
    from engine.convert.tables import NodeRow, OutputRow, node_rows

__all__ = [
    "CHECK_FOLDER",
    "ConversionResult",
    "Draft",
    "NodeRow",
    "OutputRow",
    "Phase",
    "check",
    "check_configured",
    "conversion",
    "convert",
    "node_rows",
    "placement_options",
    "refuse_bare_rectifiers",
    "refuse_cpu_operators",
]

__getattr__ = lazily(
    __name__,
    {
        "CHECK_FOLDER": "engine.convert.checker",
        "ConversionResult": "engine.convert.converter",
        "Draft": "engine.convert.checker",
        "NodeRow": "engine.convert.tables",
        "OutputRow": "engine.convert.tables",
        "Phase": "engine.convert.converter",
        "check": "engine.convert.checker",
        "check_configured": "engine.convert.checker",
        "conversion": "engine.convert.pipeline",
        "convert": "engine.convert.converter",
        "node_rows": "engine.convert.tables",
        "placement_options": "engine.convert.requests",
        "refuse_bare_rectifiers": "engine.convert.refusals",
        "refuse_cpu_operators": "engine.convert.refusals",
    },
)
