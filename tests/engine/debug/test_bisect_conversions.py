"""``ptqlab bisect`` runs the conversion of ``makertbin``, with all options; and tests a ``.bin`` of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import typer
import yaml
from typer.testing import CliRunner

from engine.cli.lab.bisect import bisect
from engine.config import load_config
from engine.convert import convert
from tests.engine.debug.bisection.test_bisect import MEAN, Conversion, network
from tests.engine.debug.test_commands import config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    conversion = Conversion(1, tmp_path)
    onnx.save(network(1), tmp_path / "model.onnx")
    (tmp_path / "cal").mkdir()
    for index, array in enumerate(conversion.images):
        (array + 128).tofile(tmp_path / "cal" / f"{index}.rgb")
    return tmp_path


def written(folder: Path, name: str = "model.yaml", **groups: dict[str, Any]) -> Path:
    content = config(folder, MEAN)
    for group, parameters in groups.items():
        content[group] = {**content[group], **parameters}  # type: ignore[dict-item]
    (folder / name).write_text(yaml.safe_dump(content))
    return folder / name


def run(folder: Path, settings: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    app = typer.Typer()
    app.command()(bisect)
    done = CliRunner().invoke(app, [str(folder / "model.onnx"), "-c", str(settings), "--json", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    "groups",
    [
        {"input_parameters": {"input_batch": 4}},
        {"model_parameters": {"remove_node_type": "Dequantize"}},
        {"model_parameters": {"layer_out_dump": True}},
        {"calibration_parameters": {"optimization": "cross_layer_equalization;integer_bias_correction"}},
    ],
)
def test_options_of_a_conversion_keep_every_bound(folder: Path, groups: dict[str, dict[str, Any]]) -> None:
    code, found = run(folder, written(folder, **groups))
    assert found["first_bad"] is None
    assert code == 0
    assert [pair["after"] for pair in found["pairs"]] == ["optimized", "calibrated", "quantized", "bin"]
    assert found["pairs"][-1]["lsb"] == 0


def test_a_bin_of_one_s_own_is_tested(folder: Path) -> None:
    settings = written(folder)
    right = convert(load_config(settings)).files["bin"]
    assert run(folder, settings, "--bin", str(right))[0] == 0
    other = written(
        folder,
        "other.yaml",
        input_parameters={"mean_value": "0 0 0"},
        model_parameters={"working_dir": str(folder / "other")},
    )
    wrong = convert(load_config(other)).files["bin"]
    code, found = run(folder, settings, "--bin", str(wrong))
    assert code == 1
    assert found["first_bad"]["stage"] == "bin"
