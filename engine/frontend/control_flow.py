"""Control flow: branches that a constant decides are put in place; what depends on the data is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from engine.errors import UnsupportedError
from engine.frontend.folding import folded

_FOLDING_LIMIT = 1 << 20
"""Largest constant, in elements, that is computed to decide a branch."""

_SUBGRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def has_branches(model: ir.Model, path: Path) -> bool:
    """Whether ``model`` has nodes ``If``.

    Raises:
        UnsupportedError: it has other nodes with subgraphs: ``Loop``, ``Scan``.
    """
    holders = [node for node in model.graph if _has_subgraph(node)]
    _refuse([node for node in holders if node.op_type != "If"], path)
    return bool(holders)


def put_branches_in_place(model: ir.Model, path: Path) -> None:
    """Replace each ``If`` whose condition is constant by its branch, in place; constants are folded on the way.

    Args:
        model: valid, of static input shapes, so that conditions on shapes are constant.
        path: what messages name.

    Raises:
        UnsupportedError: a node with a subgraph remains.
    """
    folded(model, _FOLDING_LIMIT)
    _refuse([node for node in model.graph if _has_subgraph(node)], path)


def _refuse(nodes: Sequence[ir.Node], path: Path) -> None:
    for node in nodes:
        raise UnsupportedError(
            f"{path}: node {node.name!r} ({node.op_type}) holds a subgraph; control flow is supported only as If whose "
            "condition is constant: export the model without control flow, or with loops unrolled"
        )


def _has_subgraph(node: ir.Node) -> bool:
    return any(attribute.type in _SUBGRAPHS for attribute in node.attributes.values())
