"""The original's files fall into the subgraphs of its tables: 112 of 112 cases that are compiled and not held out."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from engine.chips import load_chip
from engine.compile.partition import partition
from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.run import held_out
from engine.ir import load_model
from engine.terms import Device

pytestmark = pytest.mark.reference


def seen(reference_dir: Path) -> list[RecordedCase]:
    """Recorded cases that are not held out and have a table of subgraphs."""
    cases = find_cases(reference_dir / "networks" / "cases")
    away = held_out(cases, 5)
    return [case for case in cases if case.family not in away and case.quantized.is_file() and case.devices]


@pytest.mark.nightly
def test_nodes_of_a_table_are_grouped_as_there_and_in_its_order(reference_dir: Path) -> None:
    compared, different = 0, []
    for case in seen(reference_dir):
        result = json.loads((case.folder / "result.json").read_text())
        parts = [
            {str(node.name) for node in part.nodes}
            for part in partition(load_model(case.quantized).graph, load_chip(case.march))
            if part.device is Device.BPU
        ]
        theirs = defaultdict(set)
        for row in result["nodes"]:
            if row["Subgraph"].startswith("id("):
                theirs[int(row["Subgraph"][3:-1])].add(row["Node"])
        printed = set().union(*theirs.values())
        ours = [names for part in parts if (names := part & printed)]
        rows = result["subgraphs_us_ddr"]
        compared += 1
        if ours != [theirs[number] & set().union(*parts) for number in sorted(theirs)] or len(rows) != len(parts):
            different.append((case.name, len(parts), len(rows)))
    assert compared > 100
    assert different == []
