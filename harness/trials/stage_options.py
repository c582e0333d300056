"""The settings of a trial as options of the engine's stages."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.calibrate import CalibrationOptions
from engine.errors import ConfigError
from engine.place import NodeTypes
from engine.terms import DataType
from harness.strict_yaml import unknown
from harness.suites.settings import Int16Kind, Int16Policy, Settings


def calibration_options(settings: Settings) -> CalibrationOptions:
    """The calibration part of a trial's settings."""
    return CalibrationOptions(**{name: getattr(settings, name) for name in CalibrationOptions.model_fields})


def without_ranking(settings: Settings) -> Settings:
    """``settings``, with no int16 where the nodes are yet to be chosen by their sensitivity."""
    if settings.int16.kind is not Int16Kind.TOP_K:
        return settings
    return settings.model_copy(update={"int16": Int16Policy()})


def int16_requests(optimized: ir.Model, policy: Int16Policy) -> dict[str, NodeTypes]:
    """``node_info`` by node for an int16 policy: int16 for all inputs and the output.

    Raises:
        ConfigError: the policy names a node or operator type that the graph does not have.
    """
    names = [str(node.name) for node in optimized.graph]
    types = {str(node.name): node.op_type for node in optimized.graph}
    match policy.kind:
        case Int16Kind.NONE:
            chosen: list[str] = []
        case Int16Kind.ALL:
            chosen = names
        case Int16Kind.NODES:
            _check_known("int16 node", policy.names, names)
            chosen = list(policy.names)
        case Int16Kind.TYPES:
            _check_known("int16 operator type", policy.names, set(types.values()))
            chosen = [name for name in names if types[name] in policy.names]
        case Int16Kind.TOP_K:
            raise ConfigError(f"int16 policy {policy.label}: its nodes have not been chosen")
    int16 = DataType.INT16.value
    return {name: NodeTypes(input_type=int16, output_type=int16) for name in chosen}


def _check_known(kind: str, names: Sequence[str], allowed: Sequence[str] | set[str]) -> None:
    for name in names:
        if name not in allowed:
            raise unknown(kind, name, allowed)
