"""Typed configuration: the four YAML parameter groups of a conversion, validated, under the documented names.

Several values in one string are separated by ``;``, ``'None'`` stands for "nothing for this input". Paths in a file are
relative to the file's folder where they exist there, else to the working directory.
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
