"""The original toolchain's quantised models run with identical outputs: all measured cases, both simulators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.ir import HORIZON_DOMAIN, load_model
from engine.ops.foreign.composite import COMPOSITES
from engine.simulate import Session
from tests.conftest import PROFILE
from tests.golden_cases import GoldenCase, conversion_cases, operator_cases

pytestmark = pytest.mark.reference

FLOAT_CPU_OPS = {"Softmax", "MatMul"}
EVERY = 12
BY_DAY = {"reference": 0, "fast": 1}
"""Of so many recorded networks one runs by day, counted from here; at night all do."""
FLOAT_ROUNDING = 1e-5
"""Models that keep a float operator on the CPU agree up to float32 rounding (reference/arithmetic.md 3)."""
MODES = pytest.mark.parametrize("mode", ["reference", "fast"])


@MODES
def test_every_operator_case_is_identical(reference_dir: Path, mode: str) -> None:
    check(operator_cases(reference_dir / "golden"), mode)


@pytest.mark.nightly
@MODES
def test_every_conversion_is_identical(reference_dir: Path, mode: str) -> None:
    check(conversion_cases(reference_dir / "golden"), mode)


@pytest.mark.nightly
@MODES
def test_every_network_is_identical(reference_dir: Path, mode: str) -> None:
    folders = sorted(path.parent for path in (reference_dir / "networks" / "cases").glob("*/quantized.onnx"))
    if PROFILE != "nightly":
        folders = folders[BY_DAY[mode] :: EVERY]
    if not folders:
        pytest.skip("no networks in the reference data")
    different = {folder.name: error for folder in folders if (error := largest_network_error(folder, mode)) > 0}
    assert {name: error for name, error in different.items() if error > FLOAT_ROUNDING} == {}
    assert all(computes_in_float(reference_dir / "networks" / "cases" / name) for name in different)


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


def largest_network_error(folder: Path, mode: str) -> float:
    """Largest difference of an output over the largest value in it; ``networks/README.md`` describes the arrays."""
    session, error = Session(folder / "quantized.onnx", mode=mode), 0.0
    (name,) = (info.name for info in session.inputs)
    with np.load(folder / "io.npz") as data:
        for index in range(sum(key.startswith("in") for key in data)):
            actual = session.run({name: data[f"in{index}"]})
            for position, output in enumerate(data["names"]):
                found, expected = actual[str(output)], data[f"out{index}_{position}"]
                if found.shape != expected.shape or found.dtype != expected.dtype:
                    return float("inf")
                distance = np.abs(found.astype(np.float64) - expected).max(initial=0)
                error = max(error, float(distance / max(np.abs(expected.astype(np.float64)).max(initial=0), 1e-30)))
    return error


def computes_in_float(folder: Path) -> bool:
    """Whether a node on the CPU does more than move data."""
    moving = {"Cast", "Concat", "Gather", "Pad", "Reshape", "Slice", "Split", "Transpose"}
    nodes = load_model(folder / "quantized.onnx").graph
    quantised = [node.op_type for node in nodes if node.domain == HORIZON_DOMAIN]
    others = {node.op_type for node in nodes if node.domain != HORIZON_DOMAIN}
    return bool(COMPOSITES.keys() & quantised or others - moving)
