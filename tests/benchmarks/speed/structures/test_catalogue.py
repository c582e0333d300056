"""The networks of ``python -m benchmarks.speed structures``: they are what they are called, and the same every time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest

from benchmarks.speed.structures.catalogue import STRUCTURES, build
from engine.errors import ConfigError
from tests.conftest import ROOT

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
    command = [sys.executable, "-m", "benchmarks.speed", "lstm_recogniser", "--batch", "1,2", "--rounds", "1"]
    command += ["--no-peers", "--no-memory"]

    def printed(option: str) -> str:
        return subprocess.run([*command, option], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    report = json.loads(printed("--json"))
    assert [(row["model"], row["batch"]) for row in report["simulator"]] == [("lstm_recogniser", b) for b in (1, 2)]
    assert all(row["ratio_to_float"] > 0 for row in report["simulator"])
    assert "LSTM" in {row["op_type"] for row in report["profile"]}
    assert "outside kernels" in printed("--profile")
