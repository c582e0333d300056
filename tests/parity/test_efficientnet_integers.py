"""EfficientNet-Lite0, converted from its float model with the original's thresholds, equals the original's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.calibrate import apply_thresholds
from engine.ir import load_model
from engine.place import place
from engine.quantize import quantize
from engine.quantize.diff import diff
from tests.parity.efficientnet import FILE, MARCH, optimized_model

pytestmark = pytest.mark.reference


def test_all_nodes_names_attributes_integers_and_scales_are_equal(reference_dir: Path) -> None:
    models = reference_dir.parent / "models"
    if not (models / FILE).is_file():
        pytest.skip(f"no models in {models}")
    measured = json.loads((reference_dir / "calibration" / "max.json").read_text())["activation_thresholds"]
    thresholds = {name: entry["thresholds"] for name, entry in measured.items()}

    optimized = optimized_model(models / FILE)
    quantized = quantize(apply_thresholds(place(optimized, MARCH).model, thresholds), MARCH)

    assert diff(load_model(models / "efficientnet_lite0_quantized_reference.onnx"), quantized) == []
