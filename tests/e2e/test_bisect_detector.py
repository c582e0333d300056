"""``ptqlab bisect`` of a YOLOv8n as exported, fed with NV12: the usual case of an RDK board."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from typer.testing import CliRunner

from harness.cli.main import app
from tests.e2e.detector import SIDE, exported

SAMPLES = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``net.onnx``, ``net.yaml``, ``images/`` and what the float model is fed: ``right/``, and ``bgr/``."""
    folder = tmp_path_factory.mktemp("detector")
    onnx.save(exported(), folder / "net.onnx")
    random = np.random.RandomState(0)
    (folder / "images").mkdir()
    for index in range(SAMPLES):
        # Smooth, as pictures are: NV12 keeps colours at half the resolution.
        small = random.randint(0, 256, (1, 3, SIDE // 16, SIDE // 16))
        image = small.repeat(16, axis=2).repeat(16, axis=3).astype(np.uint8)
        image.tofile(folder / "images" / f"{index}.bin")
        fed = image.astype(np.float32) / np.float32(255)
        for name, array in (("right", fed), ("bgr", fed[:, ::-1])):
            (folder / name / "image").mkdir(parents=True, exist_ok=True)
            np.save(folder / name / "image" / f"{index}.npy", array)
    content = {
        "model_parameters": {
            "onnx_model": str(folder / "net.onnx"),
            "march": "bayes-e",
            "working_dir": "out",
            "output_model_file_prefix": "m",
        },
        "input_parameters": {
            "input_name": onnx.load(folder / "net.onnx").graph.input[0].name,
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "input_shape": f"1x3x{SIDE}x{SIDE}",
            "norm_type": "data_scale",
            "scale_value": 1 / 255,
            "input_type_rt": "nv12",
        },
        "calibration_parameters": {
            "cal_data_dir": str(folder / "images"),
            "cal_data_type": "uint8",
            "calibration_type": "max",
        },
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O2"},
    }
    (folder / "net.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("source", "bad"), [("right", None), ("bgr", "original")])
def test_a_right_preprocessing_is_not_blamed_and_a_wrong_one_is(folder: Path, source: str, bad: str | None) -> None:
    arguments = ["--config", str(folder / "net.yaml"), "--source-data", str(folder / source), "--json"]
    finished = CliRunner().invoke(app, ["bisect", str(folder / "net.onnx"), *arguments])
    found = json.loads(finished.stdout)
    first = found["first_bad"]
    assert (first if first is None else first["stage"]) == bad
    assert (finished.exit_code == 0) == (bad is None)
