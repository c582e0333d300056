"""The bundled networks optimise on every march: equivalent, stable, nothing left that the passes should have taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chips import MEASURED_MARCHES
from engine.frontend.onnx import load_onnx
from tests.engine.optimize.equivalence import census, optimized

ZOO = Path(__file__).resolve().parents[3] / "suites" / "zoo"

TAKEN = {"BatchNormalization", "Identity", "Constant", "Dropout", "Gemm", "Flatten", "Shape", "Pad", "Div", "Sum"}
"""Operators that no network of the zoo may keep."""


@pytest.mark.parametrize("march", MEASURED_MARCHES)
@pytest.mark.parametrize("path", sorted(ZOO.glob("*.onnx")), ids=lambda path: path.stem)
def test_bundled_networks(path: Path, march: str) -> None:
    after = optimized(load_onnx(path), march)
    assert not TAKEN & set(census(after))
