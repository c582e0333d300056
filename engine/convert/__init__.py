"""The conversion runner: the stages in order, what a configuration asks of each, and the tables that users read."""

from engine.convert.requests import calibration_options, compile_options, open_data, placement_options
from engine.convert.stages import (
    CHECK_FOLDER,
    ConversionResult,
    Draft,
    Stage,
    check,
    convert,
    optimized_float,
    refuse_cpu_operators,
    with_integer_biases,
)
from engine.convert.tables import NodeRow, OutputRow, node_rows

__all__ = [
    "CHECK_FOLDER",
    "ConversionResult",
    "Draft",
    "NodeRow",
    "OutputRow",
    "Stage",
    "calibration_options",
    "check",
    "compile_options",
    "convert",
    "node_rows",
    "open_data",
    "optimized_float",
    "placement_options",
    "refuse_cpu_operators",
    "with_integer_biases",
]
