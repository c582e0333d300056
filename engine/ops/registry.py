"""All quantised operators, and how a node of a graph becomes typed attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import onnx_ir as ir

from engine.errors import ModelError, UnsupportedError
from engine.ir import HORIZON_DOMAIN
from engine.ops import (  # noqa: F401 - every module of an operator, one line each; MODULES is this list
    add,
    argmax,
    average_pool,
    channel_shuffle,
    comparison,
    conv,
    conv_transpose,
    depth_to_space,
    dequantize,
    global_average_pool,
    global_max_pool,
    leaky_relu,
    lut,
    lut2_layer,
    matmul,
    max_pool,
    movement,
    mul,
    pad,
    prelu,
    preprocess,
    quantize,
    reduce_max,
    reduce_mean,
    reduce_sum,
    requantize,
    resize_upsample,
    roi_resize,
    softmax,
    space_to_depth,
    sprelu,
    sub,
    topk,
)
from engine.ops.core.base import Attribute, Attributes, BpuOperator, FloatRule, QuantizedOperator, StandardOperator

MODULES: tuple[ModuleType, ...] = tuple(
    value for value in tuple(vars().values()) if isinstance(value, ModuleType) and value.__package__ == "engine.ops"
)
"""The modules that are imported above. To add an operator, write its module and import it there."""


def entries_of(module: ModuleType, kind: type[Any], name: str) -> list[Any]:
    """One of each class of ``kind`` that ``module`` defines, in order; bases of others need no attribute ``name``.

    Raises:
        TypeError: a class lacks its name or what a backend needs; the message says what.
    """
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    classes = [value for value in own if issubclass(value, kind)]
    for value in classes:
        if not hasattr(value, name) and not value.__subclasses__():
            raise TypeError(f"{value.__name__} of {module.__name__} lacks {name}")
    return [value() for value in classes if hasattr(value, name)]


def _by_type(kind: type[Any]) -> Mapping[str, Any]:
    """The operators of ``kind`` by ONNX type.

    Raises:
        TypeError: two have the same.
    """
    found: dict[str, BpuOperator] = {}
    for entry in (entry for module in MODULES for entry in entries_of(module, kind, "op_type")):
        other = found.setdefault(entry.op_type, entry)
        if other is not entry:
            raise TypeError(f"{type(other).__name__} and {type(entry).__name__} are both {entry.op_type}")
    return MappingProxyType(found)


OPERATORS: Mapping[str, QuantizedOperator] = _by_type(QuantizedOperator)
"""Every quantised operator by its ONNX type in domain ``horizon``."""

STANDARD_OPERATORS: Mapping[str, StandardOperator] = _by_type(StandardOperator)
"""Standard operators that the BPU runs on integers, by type."""

_BPU_OPERATORS: Mapping[str, Mapping[str, BpuOperator]] = MappingProxyType(
    {HORIZON_DOMAIN: OPERATORS, "": STANDARD_OPERATORS, "ai.onnx": STANDARD_OPERATORS}
)
"""By domain and type."""

RULES: tuple[FloatRule, ...] = tuple(rule for module in MODULES for rule in entries_of(module, FloatRule, "op_types"))
"""How float operators run on the BPU."""


def rules_by_type(rules: Iterable[FloatRule]) -> Mapping[str, FloatRule]:
    """Rules by type of the float operator.

    Raises:
        TypeError: two are for the same.
    """
    found: dict[str, FloatRule] = {}
    for rule in rules:
        for name in rule.op_types:
            other = found.setdefault(name, rule)
            if other is not rule:
                raise TypeError(f"{type(other).__name__} and {type(rule).__name__} are both for {name}")
    return MappingProxyType(found)


RULE_BY_TYPE = rules_by_type(RULES)


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


def has_bpu_operator(node: ir.Node) -> bool:
    """Whether the BPU has the operator of ``node``, a node that computes on integers.

    Raises:
        UnsupportedError: the node is of domain ``horizon`` and not known.
    """
    if node.domain == HORIZON_DOMAIN:
        operator(node.op_type)
    return node.op_type in _BPU_OPERATORS.get(node.domain, ())


def bpu_operator(node: ir.Node) -> BpuOperator:
    """The operator of ``node``, which runs on the BPU.

    Raises:
        UnsupportedError: the BPU does not have it.
    """
    if not has_bpu_operator(node):
        raise UnsupportedError(f"node {node.name}: the BPU has no operator {node.domain}::{node.op_type}")
    return _BPU_OPERATORS[node.domain][node.op_type]


def read_attributes(node: ir.Node) -> Attributes:
    """Attributes of a quantised node with the schema's defaults filled in, as its ``reference`` wants them.

    Raises:
        UnsupportedError: the operator is not known, or one of its attributes.
        ModelError: a required attribute is missing or has the wrong kind.
    """
    schema = operator(node.op_type).attributes
    if unknown := sorted(set(node.attributes) - set(schema)):
        raise UnsupportedError(
            f"{node.op_type} {node.name}: attribute {', '.join(unknown)} is not known and may change the result; known:"
            f" {', '.join(schema)}"
        )
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
