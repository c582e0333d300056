"""``hb_compile``: the command, and the files of the S100."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from engine.cli.named import join_pairs
from engine.cli.vendor import hb_model_info, hb_perf, hb_verifier
from engine.cli.vendor.hb_compile import app
from engine.compat.runtime import HB_HBIRRuntime
from tests.engine.config.s100 import make_folder, written


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and calibration data, as the working directory."""
    monkeypatch.chdir(make_folder(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, join_pairs(arguments))


def test_the_command_converts(folder: Path) -> None:
    result = run("--config", str(written(folder)))
    assert result.exit_code == 0, result.output
    names = {path.name for path in (folder / "out").iterdir()}
    assert names >= {"m.hbm", "m_quantized_model.bc"}
    assert "temp.hbm" not in names
    log = (folder / "hb_compile.log").read_text()
    assert "march nash-e: extrapolated from bayes-e; nothing measured" in log
    heading, _, row = log[log.index("The integer model output") :].splitlines()[2:5]
    assert heading.split()[:3] == ["Output", "Quantized", "Cosine"]
    assert 0.9 < float(row.split()[2]) <= 1


def test_files_say_what_they_are_and_all_tools_read_them(folder: Path) -> None:
    assert run("--config", str(written(folder))).exit_code == 0
    compiled, quantized = folder / "out" / "m.hbm", folder / "out" / "m_quantized_model.bc"
    for path in (compiled, quantized):
        line = path.read_bytes().partition(b"\n")[0].decode()
        assert line.startswith("# ptqlab: ")
        assert "march nash-e, extrapolated from bayes-e; nothing measured; no file of the original" in line
    sessions = [HB_HBIRRuntime(path) for path in (compiled, quantized)]
    (info,) = sessions[0].get_inputs()
    feed = {info.name: np.random.default_rng(0).integers(0, 256, info.shape)}
    first, second = (session.run(None, feed) for session in sessions)
    np.testing.assert_array_equal(first[0], second[0])
    runner = CliRunner()
    checked = runner.invoke(hb_verifier.model_app, ["-q", str(quantized), "-b", str(compiled)])
    assert (checked.exit_code, "PASSED" in checked.output) == (0, True)
    shown = runner.invoke(hb_model_info.app, [str(compiled)])
    assert "BPU march : nash-e (extrapolated from bayes-e; nothing measured)" in shown.output
    assert runner.invoke(hb_perf.app, [str(compiled)]).exit_code == 0
    page = (folder / "hb_perf_result" / "m" / "m.html").read_text()
    assert "extrapolated from bayes-e; nothing measured" in page


def test_the_command_checks(folder: Path) -> None:
    result = run("--march", "nash-m", "--model", "m.onnx", "-i", "x", "1x3x8x8")
    assert result.exit_code == 0, result.output
    assert "HzSQuantizedConv" in result.output
    assert not (folder / "model_output").exists()


def test_the_command_converts_fast(folder: Path) -> None:
    result = run("--fast-perf", "--march", "nash-e", "--model", "m.onnx")
    assert result.exit_code == 0, result.output
    assert (folder / "model_output" / "m.hbm").is_file()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--model", "m.onnx"], 2),
        (["--config", "absent.yaml"], 2),
        (["--config", "m.onnx", "--march", "nash-e"], 2),
        (["--config", "m.onnx"], 255),
        (["--model", "m.onnx", "--march", "nash-x"], 255),
    ],
)
def test_wrong_arguments(folder: Path, arguments: list[str], code: int) -> None:
    assert run(*arguments).exit_code == code


def test_model_info_has_a_block_per_input_and_all_defaults(folder: Path) -> None:
    assert run("--config", str(written(folder))).exit_code == 0
    shown = CliRunner().invoke(hb_model_info.app, [str(folder / "out" / "m.hbm")]).output
    block = shown.partition("---------input info : x ---------")[2].partition("---------input info : x end -------")[0]
    found = dict(line.split(" : ", 1) for line in block.strip().splitlines())
    found = {key.strip(): text for key, text in found.items()}
    assert found == {
        "input_name": "x",
        "input_type_rt": "nv12",
        "input_space&range": "regular",
        "input_layout_rt": "None",
        "input_type_train": "rgb",
        "input_layout_train": "NCHW",
        "norm_type": "data_mean_and_scale",
        "input_shape": "1x3x8x8",
        "mean_value": "123.675,116.28,103.53,",
        "scale_value": "0.0171248,0.017507,0.0174292,",
        "cal_data_dir": str((folder / "data").resolve()),
    }
    assert "model input types : ['NV12']" in shown
    assert "model output types : ['F32']" in shown
    for default in ("layer_out_dump", "preprocess_on", "compile_mode", "input_batch"):
        assert default in shown
