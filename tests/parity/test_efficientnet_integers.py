"""EfficientNet-Lite0, converted from its float model with the original's thresholds, equals the original's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.calibrate import apply_thresholds
from engine.config import InputSpec
from engine.frontend import preprocess
from engine.frontend.onnx import load
from engine.ir import load_model
from engine.optimize import optimize
from engine.place import place
from engine.quantize import quantize
from engine.quantize.diff import diff
from engine.terms import InputType, Layout, NormType

pytestmark = pytest.mark.reference

MARCH = "bayes-e"


def test_all_nodes_names_attributes_integers_and_scales_are_equal(reference_dir: Path) -> None:
    models = reference_dir.parent / "models"
    if not (models / "efficientnet_lite0.onnx").is_file():
        pytest.skip(f"no models in {models}")
    spec = InputSpec(
        name="data",
        type_train=InputType.RGB,
        type_rt=InputType.RGB,
        norm_type=NormType.MEAN_AND_SCALE,
        mean=(127.0,),
        scale=(0.0078125,),
        layout_train=Layout.NCHW,
    )
    measured = json.loads((reference_dir / "calibration" / "max.json").read_text())["activation_thresholds"]
    thresholds = {name: entry["thresholds"] for name, entry in measured.items()}

    optimized = optimize(preprocess.insert(load(models / "efficientnet_lite0.onnx"), [spec]), MARCH)
    quantized = quantize(apply_thresholds(place(optimized, MARCH).model, thresholds), MARCH)

    assert diff(load_model(models / "efficientnet_lite0_quantized_reference.onnx"), quantized) == []
