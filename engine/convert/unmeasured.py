"""Which nodes of a conversion rest on nothing measured: they follow the nearest rule, and users are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from engine.chips.coverage import is_measured
from engine.convert.tables import NodeRow
from engine.ir import constant_of


def mark_unmeasured(rows: tuple[NodeRow, ...], original: ir.Model, march: str) -> tuple[NodeRow, ...]:
    """``rows`` with :attr:`~engine.convert.tables.NodeRow.unmeasured` where nothing measured covers a node.

    Args:
        rows: the node table.
        original: the float network before the optimiser.
        march: BPU architecture.
    """
    nodes = {str(node.name): node for node in original.graph}
    return tuple(replace(row, unmeasured=_unmeasured(_source_of(row.node, nodes), march)) for row in rows)


def activation_rank(node: ir.Node) -> int | None:
    """Rank of the largest activation that ``node`` reads; ``None`` where it reads none, or none of known shape."""
    shapes = [value.shape for value in node.inputs if value is not None and constant_of(value) is None]
    return max((len(shape) for shape in shapes if shape is not None), default=None)


def _source_of(name: str, nodes: Mapping[str, ir.Node]) -> ir.Node | None:
    """The node of the network that ``name`` is a part of: nodes are named after the one that they come from."""
    while name not in nodes and "_" in name:
        name = name.rpartition("_")[0]
    return nodes.get(name)


def _unmeasured(node: ir.Node | None, march: str) -> str:
    if node is None or node.domain not in ("", "ai.onnx"):  # added by the conversion, or the user's own operator
        return ""
    rank = activation_rank(node)
    if rank is None or is_measured(march, node.op_type, rank):
        return ""
    return f"unmeasured: {node.op_type} on rank {rank}"
