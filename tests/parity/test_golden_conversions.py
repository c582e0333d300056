"""Lowering the original's calibrated models gives the original's quantised models, integer for integer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.quantize import quantize
from engine.quantize.diff import diff
from engine.simulate import Session
from tests.parity.conversions import Conversion, conversions

pytestmark = pytest.mark.reference

FLOAT_CPU_OPS = {"Softmax", "MatMul"}
FLOAT_ROUNDING = 1e-5
"""Models that keep a float operator on the CPU agree up to float32 rounding (reference/arithmetic.md 3)."""


def test_every_conversion_has_the_same_graph_and_integers(reference_dir: Path) -> None:
    cases = conversions(reference_dir)
    assert len(cases) > 100
    found = {name: differing_nodes(case) for name, case in cases.items()}
    different = {name: nodes for name, nodes in found.items() if nodes}
    assert not different


def test_every_conversion_has_the_same_outputs(reference_dir: Path) -> None:
    cases = conversions(reference_dir)
    errors = {name: largest_error(case) for name, case in cases.items()}
    wrong = {name: error for name, error in errors.items() if error > tolerance(cases[name].quantized)}
    assert not wrong


def differing_nodes(case: Conversion) -> frozenset[str]:
    ours = quantize(case.calibrated, case.config.march)
    return frozenset(difference.where for difference in diff(ours, case.quantized))


def tolerance(model: ir.Model) -> float:
    types = {node.op_type for node in model.graph}
    return FLOAT_ROUNDING if types & FLOAT_CPU_OPS else 0.0


def largest_error(case: Conversion) -> float:
    session, error = Session(quantize(case.calibrated, case.config.march)), 0.0
    for inputs, expected in case.case.samples:
        actual = session.run(inputs)
        for name, array in expected.items():
            if actual[name].shape != array.shape or actual[name].dtype != array.dtype:
                return float("inf")
            error = max(error, float(np.max(np.abs(actual[name].astype(np.float64) - array), initial=0.0)))
    return error
