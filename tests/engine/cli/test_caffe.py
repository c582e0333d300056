"""``hb_mapper`` on a Caffe model: MobileNet v1's layout, converted and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from engine.cli.vendor.hb_mapper import app
from tests.engine.frontend.caffe.networks import written
from tests.engine.frontend.caffe.test_package import mobilenet


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MobileNet v1 in Caffe's files and two calibration images, as the working directory."""
    written(tmp_path, *mobilenet())
    (tmp_path / "images").mkdir()
    for index in range(2):
        image = np.random.default_rng(index).integers(0, 256, (3, 64, 64))
        image.astype(np.uint8).tofile(tmp_path / "images" / f"{index}.bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def configuration(folder: Path, **model: Any) -> Path:
    """A YAML file whose model parameters are ``model`` and what every conversion needs."""
    content = {
        "model_parameters": {"march": "bernoulli2", "output_model_file_prefix": "net", "working_dir": "out", **model},
        "input_parameters": {
            "input_type_train": "bgr",
            "input_layout_train": "NCHW",
            "input_type_rt": "nv12",
            "norm_type": "data_mean_and_scale",
            "mean_value": "103.94 116.78 123.68",
            "scale_value": 0.017,
        },
        "calibration_parameters": {"cal_data_dir": "images", "cal_data_type": "uint8", "calibration_type": "max"},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O0"},
    }
    path = folder / "net.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_makertbin(folder: Path) -> None:
    path = configuration(folder, prototxt="net.prototxt", caffe_model="net.caffemodel")
    result = run("makertbin", "--model-type", "caffe", "--config", str(path))
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.output.splitlines()]
    table = [line for line in lines if line[1:2] in (["BPU"], ["CPU"])]
    assert [row[0] for row in table][1:4] == ["conv1", "conv2_1/dw", "conv2_1/sep"]
    assert [row[1] for row in table] == ["BPU"] * 30 + ["CPU"]
    assert (folder / "out" / "net.bin").is_file()


def test_checker(folder: Path) -> None:
    files = ["--proto", "net.prototxt", "--model", "net.caffemodel"]
    result = run("checker", "--model-type", "caffe", *files, "--march", "bernoulli2")
    assert result.exit_code == 0, result.output
    assert "HzSQuantizedConv" in result.output


def test_what_is_missing_is_named(folder: Path) -> None:
    for given, message in (
        ({}, "Key 'model_parameters' error: Missing keys: 'caffe_model', 'prototxt'"),
        ({"prototxt": "net.prototxt"}, "Key 'model_parameters' error: Missing key: 'caffe_model'"),
        ({"onnx_model": "a", "prototxt": "net.prototxt"}, "give either onnx_model, or prototxt and caffe_model"),
    ):
        result = run("makertbin", "--model-type", "caffe", "--config", str(configuration(folder, **given)))
        assert (result.exit_code, message in result.output) == (255, True), result.output
        assert not (folder / "out").exists()
    result = run("checker", "--model-type", "caffe", "--model", "net.caffemodel", "--march", "bayes")
    assert (result.exit_code, "--proto is needed with --model-type caffe" in result.output) == (255, True)
    result = run("checker", "--model-type", "onnx", "--proto", "a", "--model", "net.caffemodel", "--march", "bayes")
    assert (result.exit_code, "--proto does not go with" in result.output) == (255, True)


def test_fast_perf(folder: Path) -> None:
    files = ["--proto", "net.prototxt", "--model", "net.caffemodel"]
    result = run("makertbin", "--fast-perf", "--model-type", "caffe", *files, "--march", "bayes-e")
    assert result.exit_code == 0, result.output
    written_config = yaml.safe_load((folder / ".fast_perf" / "net_config.yaml").read_text())
    assert written_config["calibration_parameters"]["calibration_type"] == "skip"
    assert written_config["input_parameters"]["input_type_rt"] == "nv12"
    assert written_config["compiler_parameters"] == {"compile_mode": "latency", "debug": True, "optimize_level": "O3"}
    assert (folder / "model_output" / "net.bin").is_file()
    wrong = run("makertbin", "--fast-perf", "--model-type", "caffe", "--march", "bayes-e")
    assert wrong.exit_code == 2
