"""Which quirks decided something in a model: kept in the metadata of its nodes, so that every later stage can tell."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from engine.parity.quirks import QUIRKS, Quirk, quirk

MARK_QUIRKS = "hz.quirks"
"""Codes of the quirks that decided what a node is or computes, separated by commas."""

MARK_DECLINED = "hz.declined"
"""Codes of the quirks that a node does not imitate, separated by commas."""


def record(node: ir.Node, code: str) -> None:
    """Note on ``node`` that the quirk ``code`` decided what it is or computes.

    Raises:
        ConfigError: there is no such quirk.
    """
    codes = dict.fromkeys((*_codes(node), quirk(code).code))
    node.metadata_props[MARK_QUIRKS] = ",".join(codes)


def decline(node: ir.Node, code: str) -> None:
    """Note on ``node`` that the quirk ``code`` is not imitated there: ``compatibility: clean``.

    Raises:
        ConfigError: there is no such quirk.
    """
    codes = dict.fromkeys((*_codes(node, MARK_DECLINED), quirk(code).code))
    node.metadata_props[MARK_DECLINED] = ",".join(codes)


def is_declined(node: ir.Node, code: str) -> bool:
    """Whether ``node`` does the right thing where the original has the quirk ``code``.

    Models without marks, such as files of the original, imitate all.
    """
    return code in _codes(node, MARK_DECLINED)


def quirks_of(node: ir.Node) -> tuple[Quirk, ...]:
    """The quirks that decided what ``node`` is or computes; codes of another version of ptqlab are passed over."""
    return tuple(QUIRKS[code] for code in _codes(node) if code in QUIRKS)


def decided(*models: ir.Model) -> Mapping[Quirk, tuple[str, ...]]:
    """Names of the nodes that each quirk decided, over all ``models`` of one conversion, in the order of the table."""
    nodes: dict[str, dict[str, None]] = {}
    for model in models:
        for node in model.graph:
            for found in quirks_of(node):
                nodes.setdefault(found.code, {})[str(node.name)] = None
    return {item: tuple(nodes[item.code]) for item in QUIRKS.values() if item.code in nodes}


def _codes(node: ir.Node, key: str = MARK_QUIRKS) -> tuple[str, ...]:
    return tuple(filter(None, node.metadata_props.get(key, "").split(",")))
