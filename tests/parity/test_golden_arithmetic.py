"""The original toolchain's quantised models run with identical outputs: all measured cases, both simulators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.ir import load_model
from engine.simulate import Session
from tests.golden_cases import GoldenCase, conversion_cases, operator_cases

pytestmark = pytest.mark.reference

FLOAT_CPU_OPS = {"Softmax", "MatMul"}
FLOAT_ROUNDING = 1e-5
"""Models that keep a float operator on the CPU agree up to float32 rounding (reference/arithmetic.md 3)."""
MODES = pytest.mark.parametrize("mode", ["reference", "fast"])


@MODES
def test_every_operator_case_is_identical(reference_dir: Path, mode: str) -> None:
    check(operator_cases(reference_dir / "golden"), mode)


@MODES
def test_every_conversion_is_identical(reference_dir: Path, mode: str) -> None:
    check(conversion_cases(reference_dir / "golden"), mode)


@pytest.mark.parametrize(("mode", "images"), [("fast", 32), ("reference", 2)])
def test_efficientnet_logits_are_identical(reference_dir: Path, mode: str, images: int) -> None:
    path = reference_dir.parent / "models" / "efficientnet_lite0_quantized_reference.onnx"
    if not path.is_file():
        pytest.skip(f"no model {path}")
    with np.load(reference_dir / "golden" / "efficientnet_lite0_logits.npz") as data:
        pixels, logits = data["images"][:images], data["logits"][:images]
    fed = (pixels.astype(np.int16) - 128).astype(np.int8).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(Session(path, mode=mode).run({"data": fed})["prob"], logits)


def check(cases: list[GoldenCase], mode: str) -> None:
    assert len(cases) > 50
    different = {str(case): error for case in cases if (error := largest_error(case, mode)) > tolerance(case)}
    assert not different


def tolerance(case: GoldenCase) -> float:
    types = {node.op_type for node in load_model(case.model).graph}
    return FLOAT_ROUNDING if types & FLOAT_CPU_OPS else 0.0


def largest_error(case: GoldenCase, mode: str) -> float:
    session, error = Session(case.model, mode=mode), 0.0
    for inputs, expected in case.samples:
        actual = session.run(inputs)
        for name, array in expected.items():
            if actual[name].shape != array.shape or actual[name].dtype != array.dtype:
                return float("inf")
            if not np.array_equal(actual[name], array):
                error = max(error, float(np.max(np.abs(actual[name].astype(np.float64) - array))))
    return error
