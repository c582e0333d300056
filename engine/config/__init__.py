"""Typed configuration: the four YAML parameter groups of a conversion, validated, under the documented names.

Several values in one string are separated by ``;``, ``'None'`` means "no value for this input". Paths in a file are
relative to the file's folder if they exist there, otherwise to the working directory.
"""

from engine.config.files import load_config, load_yaml, parse_config, read_yaml, remarks
from engine.config.inputs import InputParameters, InputSpec
from engine.config.options import OWN_OPTIMIZATIONS, ConversionOptions
from engine.config.parameters import (
    GROUPS,
    CalibrationParameters,
    CompilerParameters,
    Config,
    CustomOp,
    ModelParameters,
    NodeInfo,
)
from engine.config.values import RemovableType

__all__ = [
    "GROUPS",
    "OWN_OPTIMIZATIONS",
    "CalibrationParameters",
    "CompilerParameters",
    "Config",
    "ConversionOptions",
    "CustomOp",
    "InputParameters",
    "InputSpec",
    "ModelParameters",
    "NodeInfo",
    "RemovableType",
    "load_config",
    "load_yaml",
    "parse_config",
    "read_yaml",
    "remarks",
]
