"""All quantised operators, and how a node of a graph becomes typed attributes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.ops.add import Add, AddRule
from engine.ops.argmax import ArgMax, ArgMaxRule, ArgMinRule
from engine.ops.average_pool import AveragePool, AveragePoolRule
from engine.ops.channel_shuffle import ChannelShuffle, ChannelShuffleRule
from engine.ops.conv import Conv, ConvRule
from engine.ops.conv_transpose import ConvTranspose, ConvTransposeRule
from engine.ops.core.base import Attribute, Attributes, FloatRule, QuantizedOperator
from engine.ops.depth_to_space import DepthToSpace, DepthToSpaceRule
from engine.ops.dequantize import Dequantize
from engine.ops.global_average_pool import GlobalAveragePool, GlobalAveragePoolRule
from engine.ops.global_max_pool import GlobalMaxPool, GlobalMaxPoolRule
from engine.ops.leaky_relu import LeakyRelu
from engine.ops.lut import Lut, LutRule
from engine.ops.lut2_layer import Lut2Layer
from engine.ops.matmul import Matmul, MatmulRule
from engine.ops.max_pool import MaxPool, MaxPoolRule
from engine.ops.movement import (
    ConcatRule,
    GatherElementsRule,
    GatherRule,
    MaxRule,
    ReshapeRule,
    SliceRule,
    SplitRule,
    TileRule,
    TransposeRule,
)
from engine.ops.mul import Mul, MulRule
from engine.ops.pad import Pad, PadRule
from engine.ops.prelu import PRelu
from engine.ops.preprocess import Preprocess, PreprocessRule
from engine.ops.quantize import Quantize
from engine.ops.reduce_max import ReduceMax, ReduceMaxRule
from engine.ops.reduce_mean import ReduceMean, ReduceMeanRule
from engine.ops.reduce_sum import ReduceSum, ReduceSumRule
from engine.ops.requantize import Requantize
from engine.ops.resize_upsample import ResizeRule, ResizeUpsample
from engine.ops.roi_resize import RoiResize
from engine.ops.softmax import SoftmaxRule
from engine.ops.space_to_depth import SpaceToDepth, SpaceToDepthRule
from engine.ops.sprelu import PReluRule, SPRelu
from engine.ops.sub import Sub, SubRule
from engine.ops.topk import TopK, TopKRule

logger = logging.getLogger(__name__)

OPERATORS: Mapping[str, QuantizedOperator] = MappingProxyType(
    {
        operator.op_type: operator
        for operator in (
            Preprocess(),
            Quantize(),
            Dequantize(),
            Requantize(),
            Conv(),
            ConvTranspose(),
            Matmul(),
            Add(),
            Sub(),
            Mul(),
            GlobalAveragePool(),
            AveragePool(),
            MaxPool(),
            GlobalMaxPool(),
            ReduceMean(),
            ReduceSum(),
            ReduceMax(),
            ArgMax(),
            TopK(),
            Lut(),
            Lut2Layer(),
            SPRelu(),
            PRelu(),
            LeakyRelu(),
            RoiResize(),
            ResizeUpsample(),
            DepthToSpace(),
            SpaceToDepth(),
            ChannelShuffle(),
            Pad(),
        )
    }
)
"""Every quantised operator by its ONNX type in domain ``horizon``."""


RULES: tuple[FloatRule, ...] = (
    PreprocessRule(),
    ConvRule(),
    ConvTransposeRule(),
    AddRule(),
    SubRule(),
    MulRule(),
    MaxPoolRule(),
    AveragePoolRule(),
    GlobalAveragePoolRule(),
    ResizeRule(),
    LutRule(),
    PReluRule(),
    MatmulRule(),
    ReduceMeanRule(),
    ReduceSumRule(),
    ReduceMaxRule(),
    ArgMaxRule(),
    ArgMinRule(),
    TopKRule(),
    GlobalMaxPoolRule(),
    DepthToSpaceRule(),
    SpaceToDepthRule(),
    ChannelShuffleRule(),
    ConcatRule(),
    SplitRule(),
    PadRule(),
    SliceRule(),
    GatherRule(),
    GatherElementsRule(),
    TileRule(),
    ReshapeRule(),
    TransposeRule(),
    MaxRule(),
    SoftmaxRule(),
)
"""How float operators run on the BPU."""

RULE_BY_TYPE: Mapping[str, FloatRule] = MappingProxyType({name: rule for rule in RULES for name in rule.op_types})


def rule_for(node: ir.Node) -> FloatRule | None:
    """The rule of a float node; ``None`` where the BPU has nothing for it."""
    return RULE_BY_TYPE.get(node.op_type)


def operator(op_type: str) -> QuantizedOperator:
    """The quantised operator of that ONNX type.

    Raises:
        UnsupportedError: there is none.
    """
    if op_type not in OPERATORS:
        raise UnsupportedError(f"quantised operator horizon::{op_type} is not known; known: {', '.join(OPERATORS)}")
    return OPERATORS[op_type]


def read_attributes(node: ir.Node) -> Attributes:
    """Attributes of a quantised node with the schema's defaults filled in, as its ``reference`` wants them.

    Raises:
        UnsupportedError: the operator is not known.
        ModelError: a required attribute is missing or has the wrong kind.
    """
    schema = operator(node.op_type).attributes
    for name in set(node.attributes) - set(schema):
        logger.warning("%s %s: attribute %s is not known and has no effect", node.op_type, node.name, name)
    return {name: _read(node, name, wanted) for name, wanted in schema.items()}


def _read(node: ir.Node, name: str, wanted: Attribute) -> Any:
    where = f"{node.op_type} {node.name}: attribute {name}"
    given = node.attributes.get(name)
    if given is None:
        if wanted.default is None:
            raise ModelError(f"{where} is missing")
        return _native(wanted.kind, wanted.default)
    kind = "str" if given.type.name == "STRING" else given.type.name.lower()
    kind = "strs" if kind == "strings" else kind
    if kind != wanted.kind:
        raise ModelError(f"{where} has kind {kind}, expected {wanted.kind}")
    return _native(wanted.kind, given.value)


def _native(kind: str, value: Any) -> Any:
    match kind:
        case "ints":
            return np.asarray(value, np.int64)
        case "floats":
            return np.asarray(value, np.float64)
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "str":
            return str(value)
        case _:
            return tuple(value)
