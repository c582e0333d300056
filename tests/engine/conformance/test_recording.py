"""A toolchain as a black box: recorded, then checked; tools that fail, hang or write rubbish."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from engine.cli.lab.conformance import app
from engine.conformance.cases import CUT_OFF, find_cases
from engine.conformance.conversion import Ending
from engine.conformance.departure import ComparedStage
from engine.conformance.measures import Share, measure
from engine.conformance.recording import CaseRecorder
from engine.conformance.toolchain import Command
from engine.errors import CalibrationDataError, ConfigError, ModelError
from tests.engine.conformance.models import write_network, write_two_inputs

OURS = "from engine.cli.vendor.hb_mapper import main; main()"
RUNTIME = f"{shlex.quote(sys.executable)} -m engine.compat"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


def tool(folder: Path, code: str) -> Command:
    """A program with ``code``, as the toolchain."""
    script = folder / "tool.py"
    script.write_text(code, encoding="utf-8")
    return Command.parse(f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}", "--toolchain")


def recorder(folder: Path, code: str, **options: object) -> CaseRecorder:
    known = {"runtime": None, "to": folder / "cases", "weights": True, "time_limit": 120.0}
    return CaseRecorder(tool=tool(folder, code), **{**known, **options})  # type: ignore[arg-type]


def test_a_recorded_case_equals_itself(tmp_path: Path) -> None:
    """Our own hb_mapper in the place of the original: everything that can agree does."""
    config = write_network(tmp_path)
    folder = recorder(tmp_path, OURS, runtime=Command.parse(RUNTIME, "--runtime")).record(config)
    (case,) = find_cases(tmp_path / "cases")
    row = measure(case, tmp_path / "work")
    assert folder.name == "net"
    assert row.departure is None
    assert (row.converts, row.outputs, row.operators, row.simulator) == (True, True, True, True)
    assert row.thresholds is not None
    assert row.thresholds.equal == row.thresholds.total > 0
    assert row.devices == Share(equal=len(case.devices), total=len(case.devices))
    assert row.integers is not None
    assert row.integers.equal == row.integers.total > 0
    assert row.latency_error == pytest.approx(0.0, abs=0.01)
    result = json.loads((folder / "result.json").read_text())
    assert "version" in result["tool"]["version"]
    assert {"onnx_model", "cal_0", "small.bin"} <= set(result["sha256"])


def test_several_inputs_and_subgraphs(tmp_path: Path) -> None:
    config = write_two_inputs(tmp_path)
    folder = recorder(tmp_path, OURS, runtime=Command.parse(RUNTIME, "--runtime")).record(config)
    (case,) = find_cases(folder)
    assert set(case.samples()[1].inputs) == {"a", "b"}
    assert len(case.latencies_us) > 1
    row = measure(case, tmp_path / "work")
    assert (row.departure, row.outputs, row.simulator) == (None, True, True)


def test_without_weights_nothing_of_the_weights_is_kept(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    folder = recorder(tmp_path, OURS, weights=False).record(config)
    original = {
        t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "net.onnx").graph.initializer if t.dims[0] > 3
    }
    kept = {t.name: numpy_helper.to_array(t) for t in onnx.load(folder / "model.onnx").graph.initializer}
    assert not any(np.isclose(kept[name], array).all() for name, array in original.items())
    for name in ("calibrated", "quantized"):
        graph = onnx.load(folder / f"{name}.onnx").graph
        assert all(not numpy_helper.to_array(t).any() for t in graph.initializer if np.prod(t.dims) > 8)
    assert b"home/me" not in (folder / "model.onnx").read_bytes()
    assert not (folder / "io.npz").exists()
    data = [path.read_bytes() for path in sorted((tmp_path / "data").iterdir())]
    assert not any(path.read_bytes() in data for path in (folder / "cal_0").iterdir())


@pytest.mark.parametrize("name", ["00.jpg", "00.npy"])
def test_without_weights_calibration_data_must_be_readable(tmp_path: Path, name: str) -> None:
    config = write_network(tmp_path)
    (tmp_path / "data" / name).write_bytes(b"nothing")
    with pytest.raises(CalibrationDataError, match=f"{name}: not a readable"):
        recorder(tmp_path, OURS, weights=False).record(config)


@pytest.mark.parametrize("write", [write_network, write_two_inputs])
def test_without_weights_the_structure_is_compared(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    config = write(tmp_path)
    recorder(tmp_path, OURS, weights=False).record(config)
    (case,) = find_cases(tmp_path / "cases")
    row = measure(case, tmp_path / "work")
    assert row.departure is None
    assert (row.converts, row.operators) == (True, True)
    assert (row.outputs, row.thresholds, row.integers, row.simulator) == (None, None, None, None)
    assert row.latency_error == pytest.approx(0.0, abs=0.02)


def test_a_refusal_is_recorded_with_its_reason(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    log = (
        "2026-01-01 00:00:00,000 ERROR Input 0 is not supported\\n2026-01-01 00:00:00,001 ERROR exception in command: m"
    )
    recorder(tmp_path, f"import sys; print('{log}'); sys.exit(255)").record(config)
    (case,) = find_cases(tmp_path / "cases")
    row = measure(case, tmp_path / "work")
    assert case.refusal == "ERROR Input 0 is not supported"
    assert (row.outcome, row.converts) == (Ending.CONVERTED, False)
    assert row.departure is not None
    assert row.departure.stage is ComparedStage.REFUSAL


def test_a_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    code = "import sys, time; time.sleep(0 if '--version' in sys.argv else 60)"
    folder = recorder(tmp_path, code, time_limit=1.0).record(config)
    assert json.loads((folder / "result.json").read_text())["rc"] == CUT_OFF


def test_a_tool_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    with pytest.raises(ConfigError, match="wrote no"):
        recorder(tmp_path, "pass").record(config)
    assert not list((tmp_path / "cases").iterdir())


def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    code = "import pathlib; p = pathlib.Path('out'); p.mkdir(); (p / 'x_quantized_model.onnx').write_bytes(b'no')"
    with pytest.raises(ModelError, match="x_quantized_model"):
        recorder(tmp_path, code).record(config)


def test_a_runtime_that_fails_is_an_error(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    runtime = Command.parse(f"{sys.executable} -c 'import sys; sys.exit(\"no license\")'", "--runtime")
    with pytest.raises(ConfigError, match="no license"):
        recorder(tmp_path, OURS, runtime=runtime).record(config)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("onnx_model: ./net.onnx", "onnx_model: ./other.onnx", "no such file"),
        ("cal_data_dir: ./data", "cal_data_dir: ./nothing", "no such file"),
        ("onnx_model: ./net.onnx", "other: 1", "has no network"),
    ],
)
def test_what_a_configuration_names_must_be_there(tmp_path: Path, key: str, value: str, message: str) -> None:
    config = write_network(tmp_path)
    config.write_text(config.read_text().replace(key, value), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        recorder(tmp_path, OURS).record(config)


def test_a_case_is_never_overwritten(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    (tmp_path / "cases" / "net").mkdir(parents=True)
    with pytest.raises(ConfigError, match="already exists"):
        recorder(tmp_path, OURS).record(config)


@pytest.mark.parametrize("text", ["", "no-such-program-anywhere", "'open"])
def test_a_command_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match="--toolchain"):
        Command.parse(text, "--toolchain")


def test_one_bad_configuration_does_not_stop_the_others(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    command = tool(tmp_path, OURS)
    options = ["record", "--toolchain", shlex.join(command.words), "-o", str(tmp_path / "cases")]
    done = CliRunner().invoke(app, [*options, str(tmp_path / "missing.yaml"), str(config)])
    assert done.exit_code == ConfigError.exit_code
    assert "missing.yaml" in done.stderr
    assert (tmp_path / "cases" / "net" / "result.json").is_file()
