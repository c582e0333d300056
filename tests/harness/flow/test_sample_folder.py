"""A sample folder for a network of one's own, run from end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.chips import March
from engine.errors import ConfigError
from engine.terms import InputType
from harness.flow.sample_folder import Sample, write_sample
from tests.harness.flow.sample import make_sample


def run(script: Path, *arguments: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["sh", str(script), *arguments]
    finished = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("march", [March("bayes-e"), March("nash-e")])
def test_the_scripts_run_one_after_the_other(tmp_path: Path, march: March) -> None:
    make_sample(tmp_path)
    sample = Sample(
        model=tmp_path / "net.onnx",
        images=tmp_path / "images",
        labels=None,
        march=march,
        trained=InputType.BGR,
        mean=(104.0, 117.0, 123.0),
        scale=(0.017,),
        count=8,
    )
    folder = tmp_path / "a sample"
    names = [path.name for path in write_sample(sample, folder)]
    scripts = ["00_init.sh", "01_check.sh", "02_preprocess.sh", "03_build.sh", "04_inference.sh", "05_evaluate.sh"]
    assert names == ["net_config.yaml", *scripts]
    assert "version" in run(folder / "00_init.sh")
    assert "End model checking" in run(folder / "01_check.sh")
    assert "8 samples of input data" in run(folder / "02_preprocess.sh")
    assert "Convert to runtime bin file successfully!" in run(folder / "03_build.sh")
    assert (
        "label 2: prob" in run(folder / "04_inference.sh", str(tmp_path / "images" / "red" / "0.png")).splitlines()[1]
    )
    assert run(folder / "05_evaluate.sh").splitlines() == [
        "===REPORT-START{MAPPER-EVAL}===",
        "1.0000",
        "===REPORT-END{MAPPER-EVAL}===",
    ]


def test_calibration_takes_the_images_that_there_are(tmp_path: Path) -> None:
    make_sample(tmp_path)
    found = len(list((tmp_path / "images").rglob("*.png")))
    sample = Sample(tmp_path / "net.onnx", tmp_path / "images", None, March("bayes-e"), InputType.RGB)
    write_sample(sample, tmp_path / "all")
    assert f" -n {found} " in (tmp_path / "all/02_preprocess.sh").read_text()
    with pytest.raises(ConfigError, match=f"-n {found + 1}: .*images holds {found} images"):
        write_sample(replace(sample, count=found + 1), tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_a_folder_in_use_and_a_network_without_an_image_are_refused(tmp_path: Path) -> None:
    make_sample(tmp_path)
    sample = Sample(tmp_path / "net.onnx", tmp_path / "images", None, March("bayes"), InputType.GRAY)
    with pytest.raises(ConfigError, match=r"input data of shape \[1, 3, 16, 16\] is not an image of gray"):
        write_sample(sample, tmp_path / "new")
    with pytest.raises(ConfigError, match="is not empty"):
        write_sample(sample, tmp_path)
