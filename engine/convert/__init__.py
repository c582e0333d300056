"""The conversion runner: the stages in order, what a configuration asks of each, and the tables that users read."""

from engine.convert.check import CHECK_FOLDER, Draft, check
from engine.convert.conversion import ConversionResult, Phase, convert
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
