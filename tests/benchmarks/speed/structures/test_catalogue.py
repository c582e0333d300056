"""The networks of ``ptqlab bench zoo``: they are what they are called, and the same every time."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from benchmarks.speed.structures.catalogue import STRUCTURES, build
from engine.errors import ConfigError
from harness.cli.main import app

MEGA_WEIGHTS = {
    "mobilenet_v2": 3.5,
    "mobilenet_v3_small": 2.5,
    "resnet_18": 11.7,
    "yolov8n": 3.2,
    "unet": 7.8,
    "vit_tiny": 5.7,
    "swin_stage": 0.23,
    "text_detector": 0.6,
    "lstm_recogniser": 1.64,
}
"""Millions of weights; of the published networks too, where there are any (batch normalisation folded)."""


@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_has_its_real_size(name: str) -> None:
    model = build(name)
    onnx.checker.check_model(model)
    weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    assert weights / 1e6 == pytest.approx(MEGA_WEIGHTS[name], rel=0.1)


def test_structure_is_the_same_every_time() -> None:
    assert build("lstm_recogniser") == build("lstm_recogniser")


def test_unknown_structure_is_refused() -> None:
    with pytest.raises(ConfigError, match="structure 'vgg' is not known; known: mobilenet_v2"):
        build("vgg")


@pytest.mark.nightly
def test_one_structure_is_measured_and_profiled() -> None:
    command = ["bench", "lstm_recogniser", "--batch", "1,2", "--rounds", "1"]
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [(row["model"], row["batch"]) for row in report["simulator"]] == [("lstm_recogniser", b) for b in (1, 2)]
    assert all(row["ratio_to_float"] > 0 for row in report["simulator"])
    assert "LSTM" in {row["op_type"] for row in report["profile"]}
    table = CliRunner().invoke(app, [*command, "--profile"])
    assert "outside kernels" in table.stdout
