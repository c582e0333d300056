"""What a sweep's page shows of nodes: cosines by depth of all settings, and the graphs of the chosen trials."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.pages import GraphNode, graph_data
from harness.report.names import ShortNames
from harness.report.results import Sweep
from harness.trials.figures import TrialNode
from harness.trials.sums import read_checked
from harness.trials.trial import NODES_FILE, TrialResult, TrialStore

MOST_PROFILES = 40
"""Trials whose nodes and classes are in the page one by one: the chosen ones, then the first of the others."""


def chosen_trials(sweep: Sweep) -> list[TrialResult]:
    """The trials that are shown one by one: Pareto points first, all with figures."""
    found = [result for result in sweep.results if result.ok]
    found.sort(key=lambda result: result.spec.key not in sweep.front)
    return found[:MOST_PROFILES]


def profiles(trials: Sequence[TrialResult], store: TrialStore) -> list[dict[str, Any]]:
    """Per trial: its nodes as a graph, with the cosine of each; trials without nodes are left out."""
    found = []
    for result in trials:
        rows = store.nodes(result.spec.key)
        if rows:
            found.append({"trial": result.spec.id, "nodes": table_as_graph(rows)})
    return found


def table_as_graph(rows: Sequence[TrialNode]) -> list[dict[str, Any]]:
    """A node table as the graph of a page, each node with its ``cosine``."""
    nodes = [
        GraphNode(
            name=row.node,
            type=row.type,
            on=row.on,
            detail=", ".join(_details(row)),
            note=row.reason or row.data_type,
            cost=row.time_us,
            reads=tuple(rows[int(place)].node for place in row.reads.split()),
        )
        for row in rows
    ]
    return [drawn | {"cosine": row.cosine} for drawn, row in zip(graph_data(nodes), rows, strict=True)]


def _details(row: TrialNode) -> list[str]:
    time = [] if row.time_us is None else [f"{row.time_us:.1f} us"]
    return time if row.cosine is None else [*time, f"cos {row.cosine:.4f}"]


def cosines_by_depth(sweep: Sweep, store: TrialStore, names: ShortNames) -> list[dict[str, Any]]:
    """Per model and march ``{model, nodes, rows}``: the nodes in the order of the graph, a row per quantised model.

    A row is ``{label, more, values}``: the settings, how many further ones gave the same integers, and ``log10(1 -
    cosine)`` by node, 2 decimals, None where a trial has no such node.
    """
    twins = list(sweep.twins.values())
    groups: dict[str, list[tuple[str, int, Mapping[str, float]]]] = {}
    for result in sweep.results:
        if not result.ok or result.spec.key in sweep.twins:
            continue
        values = _cosines(store.folder(result.spec.key) / NODES_FILE)
        if values:
            title = f"{result.spec.model}, {result.spec.march.value}"
            row = (names.settings(result.spec.settings), twins.count(result.spec.id), values)
            groups.setdefault(title, []).append(row)
    found = []
    for title, rows in groups.items():
        nodes = _merged([list(values) for _, _, values in rows])
        listed = [
            {"label": label, "more": more, "values": [values.get(node) for node in nodes]}
            for label, more, values in rows
        ]
        found.append({"model": title, "nodes": nodes, "rows": listed})
    return found


def _cosines(path: Path) -> dict[str, float]:
    """``log10(1 - cosine)`` by node; read without further checks, since there may be thousands of trials."""
    try:
        text = read_checked(path).decode()
    except FileNotFoundError:
        return {}
    rows = [(row["node"], row["cosine"]) for row in csv.DictReader(io.StringIO(text))]
    return {node: round(math.log10(max(1 - float(cosine), 1e-7)), 2) for node, cosine in rows if cosine}


def _merged(orders: Sequence[Sequence[str]]) -> list[str]:
    """All names; what only some have stands behind the name that it follows there."""
    merged: dict[str, None] = dict.fromkeys(orders[0]) if orders else {}
    for order in {tuple(order): None for order in orders}:
        if all(name in merged for name in order):
            continue
        names, at = list(merged), 0
        for name in order:
            if name in merged:
                at = names.index(name) + 1
            else:
                names.insert(at, name)
                at += 1
        merged = dict.fromkeys(names)
    return list(merged)
