"""Evaluation and classification of every stage of one conversion."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from engine.config import load_config
from engine.convert import convert
from engine.errors import CalibrationDataError, ConfigError
from harness.cli.main import app
from harness.flow.scoring import drawn, labelled, likeliest, workers
from tests.harness.flow.sample import make_sample


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversion whose calibration data ``ptqlab prepare`` wrote."""
    made = tmp_path_factory.mktemp("sample")
    path = make_sample(made)
    (made / "all").mkdir()
    for file in (made / "images").glob("*/*.png"):
        (made / "all" / f"{file.parent.name}{file.name}").write_bytes(file.read_bytes())
    result = CliRunner().invoke(app, ["prepare", str(made / "all"), "-c", str(path), "-n", "8"])
    assert result.exit_code == 0, result.output
    assert "8 samples of input data, bgr 1x3x16x16, written to" in result.output
    convert(load_config(path))
    return made


STAGES = ("original_float", "optimized_float", "calibrated", "quantized", "bin", "source")


def model(folder: Path, stage: str) -> Path:
    files = {"bin": folder / "out" / "net.bin", "source": folder / "net.onnx"}
    return files.get(stage, folder / "out" / f"net_{stage}_model.onnx")


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_scores_the_same(folder: Path, stage: str) -> None:
    command = ["evaluate", str(model(folder, stage)), "--data", str(folder / "images"), "-c", str(folder / "net.yaml")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert result.stdout == "===REPORT-START{MAPPER-EVAL}===\n1.0000\n===REPORT-END{MAPPER-EVAL}===\n"


def test_json_and_labels_of_a_list(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "val.txt"
    labels.write_text("".join(f"blue{k}.png 0\nred{k}.png,1\n" for k in range(4)))
    command = ["evaluate", str(model(folder, "bin")), "--data", str(folder / "all"), "-c", str(folder / "net.yaml")]
    found = json.loads(CliRunner().invoke(app, [*command, "--labels", str(labels), "--json", "-j", "1"]).stdout)
    assert (found["images"], found["value"]) == (8, 0.5)
    assert found["stderr"] == pytest.approx(np.sqrt(0.25 / 8))
    found = json.loads(CliRunner().invoke(app, [*command, "--labels", str(labels), "--json", "-n", "3"]).stdout)
    assert found["images"] == 3


def test_the_likeliest_classes_have_their_names(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("azure\ngrass\nrose\n")
    image = folder / "images" / "red" / "0.png"
    command = ["classify", str(model(folder, "quantized")), str(image), "-c", str(folder / "net.yaml")]
    lines = CliRunner().invoke(app, [*command, "--names", str(names), "-k", "2"]).stdout.splitlines()
    assert lines[0] == "The input picture is classified to be:"
    assert lines[1].startswith("label 2: prob ")
    assert lines[1].endswith(" rose")
    assert len(lines) == 3


def test_scores_that_are_no_probabilities_become_some() -> None:
    assert likeliest(np.array([[0.1, 0.7, 0.2]]), 2) == [(1, 0.7), (2, 0.2)]
    ((index, probability), _) = likeliest(np.log([1.0, 3.0]) + 5, 2)
    assert (index, probability) == (1, pytest.approx(0.75))
    assert [index for index, _ in likeliest(np.zeros(3), 3)] == [0, 1, 2]


def test_wrong_lists_are_refused(tmp_path: Path) -> None:
    labels = tmp_path / "val.txt"
    for text, message in (
        ("a.png", "expected the name of an image"),
        ("../x 1", "is not a file in"),
        ("", "lists no image"),
    ):
        labels.write_text(text)
        with pytest.raises(CalibrationDataError, match=message):
            labelled(tmp_path, labels)
    with pytest.raises(CalibrationDataError, match="holds no folder per class"):
        labelled(tmp_path, None)


def test_draws_keep_images_and_classes_together(folder: Path) -> None:
    found = drawn(labelled(folder / "images", None), 5, 1)
    names = [("blue", "green", "red")[index] for index in found.classes]
    assert [file.parent.name for file in found.files] == names


def test_threads_come_from_the_documents_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLEL_PROCESS_NUM", "3")
    assert (workers(None), workers(2)) == (3, 2)
    monkeypatch.setenv("PARALLEL_PROCESS_NUM", "0")
    with pytest.raises(ConfigError, match="PARALLEL_PROCESS_NUM='0': expected a positive integer"):
        workers(None)
