"""The conversion: the stage runner, the stages in order, and the tables that users read.

Names are looked up when they are asked for: a stage that imports the runner must not depend on all of this.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.convert.checker import CHECK_FOLDER, Draft, check
    from engine.convert.converter import ConversionResult, Phase, convert
    from engine.convert.pipeline import conversion
    from engine.convert.refusals import refuse_cpu_operators
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
    "conversion",
    "convert",
    "node_rows",
    "placement_options",
    "refuse_cpu_operators",
]

_MODULES = {
    "checker": ("CHECK_FOLDER", "Draft", "check"),
    "converter": ("ConversionResult", "Phase", "convert"),
    "pipeline": ("conversion",),
    "refusals": ("refuse_cpu_operators",),
    "requests": ("placement_options",),
    "tables": ("NodeRow", "OutputRow", "node_rows"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
