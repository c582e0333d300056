"""Which nodes an int16 policy asks for."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.errors import ConfigError
from harness.files.strict_yaml import unknown
from harness.suites.settings import Int16Kind, Int16Policy, Settings


def without_ranking(settings: Settings) -> Settings:
    """``settings``, with no int16 where the nodes are yet to be chosen by their sensitivity."""
    if settings.int16.kind is not Int16Kind.TOP_K:
        return settings
    return settings.model_copy(update={"int16": Int16Policy()})


def int16_nodes(graph: ir.Model, policy: Int16Policy) -> tuple[str, ...]:
    """Names of the nodes that an int16 policy asks to take and give int16.

    Args:
        graph: the optimised graph.
        policy: any but one by sensitivity.

    Raises:
        ConfigError: the policy names a node or operator type that the graph does not have.
    """
    types = {str(node.name): node.op_type for node in graph.graph}
    match policy.kind:
        case Int16Kind.NONE:
            return ()
        case Int16Kind.ALL:
            return tuple(types)
        case Int16Kind.NODES:
            _check_known("int16 node", policy.names, set(types))
            return tuple(policy.names)
        case Int16Kind.TYPES:
            _check_known("int16 operator type", policy.names, set(types.values()))
            return tuple(name for name, kind in types.items() if kind in policy.names)
        case Int16Kind.TOP_K:
            raise ConfigError(f"int16 policy {policy.label}: its nodes have not been selected yet")


def _check_known(kind: str, names: Sequence[str], allowed: Sequence[str] | set[str]) -> None:
    wrong = [unknown(kind, name, allowed) for name in names if name not in allowed]
    if wrong:
        raise ConfigError("; ".join(map(str, wrong)))
