"""The node where an integer model leaves the float model is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.debug.bisection.breaks import first_break
from tests.e2e.field_cases import converted


def test_the_node_that_breaks_is_named(tmp_path: Path) -> None:
    options = {"calibration__optimization": "set_model_output_int8"}
    models = converted(tmp_path, "boxes_and_scores.onnx", **options).models
    (value,) = models["original_float"].graph.inputs
    feed = {str(value.name): np.random.default_rng(1).uniform(-2, 2, (1, 3, 8, 8)).astype(np.float32)}
    stages = models["optimized_float"], models["calibrated"], models["quantized"]
    found = first_break(*stages, feed, 10.0)
    assert found is not None
    assert (found.node, found.op_type) == ("sigmoid", "Sigmoid")
    assert found.sqnr < 10
    assert found.before > found.sqnr
    assert first_break(*stages, feed, -100.0) is None
