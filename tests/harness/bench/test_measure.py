"""``ptqlab bench``: what it reports and refuses; no speeds are asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.errors import ConfigError, ModelError
from engine.ir import save_model
from harness.bench.peak_memory import Contender, peak_memory
from harness.cli.main import app
from tests.engine.simulate.test_session import IMAGE_MODEL, float_model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A quantised model and a float network as files."""
    folder = tmp_path_factory.mktemp("pair")
    save_model(float_model(), folder / "float.onnx")
    return str(IMAGE_MODEL), str(folder / "float.onnx")


def test_json_of_a_pair(pair: tuple[str, str]) -> None:
    arguments = ["bench", "--model", pair[0], "--float-model", pair[1], "--rounds", "1", "--batch", "1,2", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == {"simulator", "memory", "conversion", "profile"}
    assert [row["batch"] for row in report["simulator"]] == [1, 2]
    for row in report["simulator"]:
        assert row["model"] == IMAGE_MODEL.stem
        assert row["ratio_to_float"] == pytest.approx(row["images_per_s"] / row["float_images_per_s"])
        assert row["ratio_to_reference"] == pytest.approx(row["images_per_s"] / row["reference_images_per_s"])
    for row in report["memory"]:
        assert row["ratio_to_float"] == pytest.approx(row["simulator_bytes"] / row["float_bytes"])
    assert report["conversion"] == []


def test_a_model_of_the_zoo_is_converted_stage_by_stage() -> None:
    arguments = ["bench", "mnist_mobilenet", "--rounds", "1", "--batch", "2", "--no-reference", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (conversion,) = json.loads(result.stdout)["conversion"]
    assert (conversion["model"], conversion["images"]) == ("mnist_mobilenet", 50)
    assert {"optimize", "calibrate", "quantize", "compile"} <= set(conversion["seconds"])
    for stage, seconds in conversion["seconds"].items():
        assert conversion["ratio_to_float_pass"][stage] == pytest.approx(seconds / conversion["float_pass_seconds"])


def test_table_of_a_quantised_model_alone(pair: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["bench", "--model", pair[0], "--rounds", "1", "--batch", "1", "--no-reference"])
    assert result.exit_code == 0, result.output
    assert "images per second" in result.stdout
    assert IMAGE_MODEL.stem in result.stdout


def test_memory_of_a_large_batch_is_that_of_its_own_process(pair: tuple[str, str]) -> None:
    small, large = (peak_memory(Contender.FLOAT, Path(pair[1]), batch, 1) for batch in (1, 1))
    assert small == pytest.approx(large, rel=0.2)
    assert 10e6 < small < 1e9


def test_wrong_use_is_refused(pair: tuple[str, str], tmp_path: Path) -> None:
    runner = CliRunner()
    assert "no names" in runner.invoke(app, ["bench", "mnist_lenet", "--model", pair[0]]).output
    assert "--model only" in runner.invoke(app, ["bench", "--float-model", pair[1]]).output
    assert isinstance(runner.invoke(app, ["bench", "--model", pair[0], "--batch", "1,x"]).exception, ConfigError)
    assert isinstance(runner.invoke(app, ["bench", "--model", pair[1]]).exception, ModelError)
    assert "did you mean 'mnist_lenet'" in str(runner.invoke(app, ["bench", "mnist_lenett"]).exception)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelError, match="measuring memory failed"):
        peak_memory(Contender.FLOAT, broken, 1, 1)
