"""One model per operator and variant: placed and lowered as by the original (reference/operators.md,
operators.csv).

Both are read off what ``ptqlab check --json`` prints. Agreement is measured on the devices of the operator under test,
on the operators and data types of its nodes, and on the operators of the quantised graph, in order.

Nodes belong to an operator by name: its own, or its own before an underscore. That is how the reference was measured:
it lists ``HzLut`` and ``HzSElementwiseMul`` for a ``Div``, which the original calls ``<node>_reciprocal`` and
``<node>_mul`` (golden conversion ``div``); no node has the name of the ``Div`` itself.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.cli.lab.check import as_dict
from engine.convert import Draft, check
from engine.errors import PtqlabError

pytestmark = pytest.mark.reference

KNOWN = Path(__file__).with_name("operator_differences.csv")
"""Rows that differ, with a reason: columns op, variant, march, differs, reason; ``differs`` is placement, types (of the
operator's own nodes), operators (other ones) or order, several joined by a space."""

DOCUMENT = Path(__file__).parents[2] / "docs" / "evidence" / "placement.md"
"""Repeats them as its only table of five columns."""

PLACEMENT_BAR, TYPES_BAR, SEQUENCE_BAR = 0.97, 0.97, 0.90
"""Shares of rows that must be equal."""

BORDER_OPERATORS = {"Cast", "Reshape", "Transpose"}
"""Operators that a conversion adds at the borders of an operator; they do not say where it runs."""

COLUMNS = 5

Row = tuple[str, str, str]


BY_DAY = 4
"""Of so many rows one is compared by day."""


@pytest.fixture(scope="module", params=[BY_DAY, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"])
def compared(request: pytest.FixtureRequest, reference_dir: Path) -> dict[Row, str]:
    """What differs by row that was compared: nothing, or see :data:`KNOWN`."""
    folder = reference_dir / "operators"
    with (folder / "operators.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if converts(row)]
    return {key(row): compare(row, converted(folder, row)) for row in rows[:: request.param]}


def test_bars(compared: dict[Row, str]) -> None:
    found, count = compared, len(compared)
    assert count > 150
    assert 1 - sum("placement" in text for text in found.values()) / count >= PLACEMENT_BAR
    assert 1 - sum("types" in text for text in found.values()) / count >= TYPES_BAR
    assert 1 - sum("operators" in text or "order" in text for text in found.values()) / count >= SEQUENCE_BAR


def test_differences_are_the_known_ones(compared: dict[Row, str]) -> None:
    with KNOWN.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["reason"] for row in rows)
    known = {key(row): row["differs"] for row in rows if key(row) in compared}
    found = {row: text for row, text in compared.items() if text}
    assert found == known, "new differences, or known ones that are gone"


def test_documentation_lists_them() -> None:
    with KNOWN.open(encoding="utf-8", newline="") as file:
        lines = [f"| {' | '.join(row.values())} |" for row in csv.DictReader(file)]
    text = DOCUMENT.read_text(encoding="utf-8").splitlines()
    assert [line for line in text if line.startswith("| ") and line.count("|") == COLUMNS + 1][1:] == lines


def converts(row: Mapping[str, str]) -> bool:
    """Whether the original converted the model to the end; we convert some that it refuses."""
    return "error" not in row["placement"] and row["quantized_graph"] != ""


def key(row: Mapping[str, str]) -> Row:
    return row["op"], row["variant"], row["march"]


def converted(folder: Path, row: Mapping[str, str]) -> dict[str, Any]:
    """What ``ptqlab check --json`` prints; nothing where we refuse the model."""
    try:
        return as_dict(check(folder / "models" / row["model"], Draft(row["march"])))
    except PtqlabError:
        return {"nodes": [], "quantized_graph": []}


def compare(row: Mapping[str, str], ours: Mapping[str, Any]) -> str:
    """What differs: ``placement``, ``types``, ``operators`` or ``order``, joined by spaces; empty if nothing does."""
    expected = row["quantized_graph"].split()
    nodes = nodes_of(json.loads(row["node"]), ours["nodes"])
    found = []
    if placement(nodes) != row["placement"]:
        found.append("placement")
    if {f"{node['type']}:{node['dtype']}" for node in nodes} != set(row["type"].split()):
        found.append("types")
    if sorted(ours["quantized_graph"]) != sorted(expected):
        found.append("operators")
    elif ours["quantized_graph"] != expected:
        found.append("order")
    return " ".join(found)


def nodes_of(names: list[str], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes ``names``, and those that they were taken apart into."""
    return [node for node in nodes if any(f"{node['node']}_".startswith(f"{name}_") for name in names)]


def placement(nodes: list[dict[str, Any]]) -> str:
    """Where the ``nodes`` of an operator run: BPU, CPU, mixed or folded/fused."""
    devices = {node["on"] for node in nodes if node["type"] not in BORDER_OPERATORS} or {node["on"] for node in nodes}
    if not devices:
        return "folded/fused"
    return "mixed" if len(devices) > 1 else str(devices.pop())
