"""Graphs on pages: what is known of a node, and where it stands in the picture that ``graph.js.j2`` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class GraphNode:
    """One node of a picture.

    Attributes:
        name: unique.
        type: operator, or another word for it.
        on: ``BPU`` or ``CPU``.
        detail: a few words more for the picture, such as the time.
        note: what a reader who chooses the node sees besides.
        cost: what a bar within the node shows, beside the greatest; None where it is not known.
        reads: names of the nodes whose results it reads.
        href: address of its details; empty for none.
    """

    name: str
    type: str
    on: str
    detail: str = ""
    note: str = ""
    cost: float | None = None
    reads: tuple[str, ...] = ()
    href: str = ""


def places(reads: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Column and row of each node: the row is the longest way from an input, the column counts the row's nodes.

    Args:
        reads: by name of a node, in running order, the nodes whose results it reads.
    """
    rows: dict[str, int] = {}
    used: dict[int, int] = {}
    found = {}
    for name, sources in reads.items():
        row = 1 + max((rows[source] for source in sources), default=-1)
        rows[name] = row
        found[name] = (used.get(row, 0), row)
        used[row] = used.get(row, 0) + 1
    return found


def graph_data(nodes: Sequence[GraphNode]) -> list[dict[str, Any]]:
    """The nodes as the page's script takes them, in running order: with ``place``, and ``reads`` as numbers."""
    where = places({node.name: node.reads for node in nodes})
    number = {node.name: index for index, node in enumerate(nodes)}
    return [
        asdict(node) | {"place": where[node.name], "reads": [number[source] for source in node.reads]} for node in nodes
    ]
