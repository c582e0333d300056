from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import typer
import yaml
from typer.testing import CliRunner

from engine.cli.lab.bisect import bisect
from engine.cli.vendor.hmct_debugger import app
from engine.ir import save_model
from tests.engine.debug.bisection.test_bisect import MEAN, SCALE, Conversion, network
from tests.engine.debug.models import zoo


def test_hmct_debugger_takes_lists_as_a_shell_leaves_them(tmp_path: Path) -> None:
    model, feed = zoo("mnist_lenet")
    save_model(model, tmp_path / "calibrated_model.onnx")
    (tmp_path / "data" / "image").mkdir(parents=True)
    np.save(tmp_path / "data" / "image" / "0.npy", feed["image"][:1])
    files = [str(tmp_path / "calibrated_model.onnx"), str(tmp_path / "data")]
    run = CliRunner().invoke
    for command in ("get-sensitivity-of-nodes", "get_sensitivity_of_nodes"):
        done = run(app, [command, *files, "-m", "[cosine-similarity,mse]", "-v", "True", "-i", "[/0/Conv]"])
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[1].split() == ["Node", "cosine-similarity", "mse"]
    done = run(
        app, ["plot-acc-error", *files, "-nq", "[[/0/Conv],[/0/Conv,/3/Conv]]", "-a", "True", "-s", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "accumulated_error.html").is_file()


def test_bisect_command_names_a_wrong_mean_and_leaves_a_minimal_case(tmp_path: Path) -> None:
    conversion = Conversion(1, tmp_path)
    onnx.save(network(1), tmp_path / "model.onnx")
    for folder, arrays in (("data", conversion.images), ("source", conversion.source_feed["image"])):
        (tmp_path / folder / "image").mkdir(parents=True)
        for index, array in enumerate(arrays):
            np.save(tmp_path / folder / "image" / f"{index}.npy", array[None])
    (tmp_path / "cal").mkdir()
    for index, array in enumerate(conversion.images):
        (array + 128).tofile(tmp_path / "cal" / f"{index}.rgb")
    command = typer.Typer()
    command.command()(bisect)
    for mean, code in ((MEAN, 0), ((0.0, *MEAN[1:]), 1)):
        (tmp_path / "model.yaml").write_text(yaml.safe_dump(config(tmp_path, mean)))
        arguments = ["--config", "model.yaml", "--data", "data", "--source-data", "source", "--minimise", "minimal"]
        paths = [str(tmp_path / part) if part[0] != "-" else part for part in ["model.onnx", *arguments]]
        done = CliRunner().invoke(command, [*paths, "--json"])
        assert done.exit_code == code, done.output
        found = json.loads(done.stdout)
        assert len(found["pairs"]) == 5
        assert (found["first_bad"] or {}).get("node") == ("HZ_PREPROCESS_FOR_image" if code else None)
    assert len(onnx.load(tmp_path / "minimal" / "minimal.onnx").graph.node) == 1
    assert {"in:image", "expected", "actual"} == set(np.load(tmp_path / "minimal" / "minimal.npz"))


def config(folder: Path, mean: tuple[float, ...]) -> dict[str, object]:
    return {
        "model_parameters": {
            "onnx_model": str(folder / "model.onnx"),
            "march": "bayes-e",
            "working_dir": str(folder / "out"),
            "output_model_file_prefix": "random",
        },
        "input_parameters": {
            "input_name": "image",
            "input_type_train": "rgb",
            "input_layout_train": "NCHW",
            "input_type_rt": "rgb",
            "norm_type": "data_mean_and_scale",
            "mean_value": " ".join(map(str, mean)),
            "scale_value": " ".join(map(str, SCALE)),
        },
        "calibration_parameters": {
            "cal_data_dir": str(folder / "cal"),
            "cal_data_type": "float32",
            "calibration_type": "max",
        },
        "compiler_parameters": {},
    }
