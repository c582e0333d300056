"""Thresholds stand where the original put them: same tensors, same types, same tensors that share one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir
import pytest

from engine.convert import placement_options
from engine.graph.scales import scale_source
from engine.ir import calibration_nodes
from engine.place import place
from tests.parity.conversions import Conversion, conversions, without_calibration

pytestmark = pytest.mark.reference

FIXED_TOLERANCE = 1e-6
"""Fixed thresholds are quoted with six digits (reference/arithmetic.md 2.1)."""


def test_thresholds_stand_where_the_original_put_them(reference_dir: Path) -> None:
    cases = conversions(reference_dir)
    assert len(cases) > 100
    problems = {name: text for name, case in cases.items() if (text := differences(case))}
    assert problems == {}


def differences(case: Conversion) -> list[str]:
    """What distinguishes our placement from the original's."""
    optimized = without_calibration(case.calibrated)
    placed = place(optimized, case.config.march, placement_options(case.config, optimized)).model
    theirs, ours = types(case.calibrated), types(placed)
    names = [name for name in sorted({*theirs, *ours}) if ours.get(name) != theirs.get(name)]
    found = [f"{name}: {ours.get(name)} | {theirs.get(name)}" for name in names]
    return found + wrong_thresholds(placed, thresholds(case.calibrated))


def types(model: ir.Model) -> dict[str, str]:
    return {str(node.name): node.attributes["qtype"].as_string() for node in calibration_nodes(model)}


def thresholds(model: ir.Model) -> dict[str, tuple[float, ...]]:
    return {
        str(node.inputs[0].name): tuple(node.attributes["thresholds"].as_floats())
        for node in calibration_nodes(model)
        if node.inputs[0] is not None
    }


def wrong_thresholds(placed: ir.Model, measured: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Ties and fixed thresholds that the original's thresholds contradict."""
    found = []
    for node in calibration_nodes(placed):
        name = "" if node.inputs[0] is None else str(node.inputs[0].name)
        tie, fixed = scale_source(node).of, scale_source(node).fixed
        if name not in measured:
            continue
        if tie is not None and measured.get(tie) != measured[name]:
            found.append(f"{name}: tied to {tie}, {measured.get(tie)} | {measured[name]}")
        if fixed is not None and abs(fixed - measured[name][0]) > FIXED_TOLERANCE:
            found.append(f"{name}: fixed at {fixed} | {measured[name]}")
    return found
