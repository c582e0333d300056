"""One model per operator and variant: placed and lowered to the operators that the original writes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.calibrate import apply_thresholds
from engine.errors import PtqlabError
from engine.frontend.onnx import load
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from engine.quantize import quantize

pytestmark = pytest.mark.reference

KNOWN = Path(__file__).with_name("operator_differences.csv")
"""Rows that differ, with a reason: columns op, variant, march, reason."""

Row = tuple[str, str, str]


def test_every_operator_is_lowered_as_by_the_original(reference_dir: Path) -> None:
    folder = reference_dir / "operators"
    with (folder / "operators.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if converts(row)]
    assert len(rows) > 600
    different = {key(row) for row in rows if sorted(operators(folder, row)) != sorted(row["quantized_graph"].split())}
    assert different == known(), "new differences, or known ones that are gone"


def converts(row: dict[str, str]) -> bool:
    """Whether the original converted the model to the end; we convert some that it refuses."""
    return "error" not in row["placement"] and row["quantized_graph"] != ""


def key(row: dict[str, str]) -> Row:
    return row["op"], row["variant"], row["march"]


def known() -> set[Row]:
    with KNOWN.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["reason"] for row in rows)
    return {key(row) for row in rows}


def operators(folder: Path, row: dict[str, str]) -> list[str]:
    """Operator types of our quantised model; the error's type where there is none."""
    march = row["march"]
    try:
        optimized = optimize(load(folder / "models" / row["model"]), march)
        placed = place(optimized, march, PlacementOptions()).model
        return [node.op_type for node in quantize(apply_thresholds(placed, None), march).graph]
    except PtqlabError as error:
        return [type(error).__name__]
