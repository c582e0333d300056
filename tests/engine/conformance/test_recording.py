"""A toolchain as a black box: recorded, then checked; tools that fail, hang or write rubbish."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner, Result

from engine.cli.lab.conformance import EXIT_REFUSED, app
from engine.cli.vendor.hb_mapper import app as hb_mapper
from engine.conformance.cases import find_cases
from engine.conformance.conversion import Ending
from engine.conformance.departure import ComparedStage
from engine.conformance.measures import Share, measure
from engine.conformance.recording import CaseRecorder
from engine.errors import CalibrationDataError, ConfigError, ModelError
from engine.toolchain.command import CUT_OFF, Command
from engine.toolchain.tool import Toolchain
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


Replay = Callable[[Callable[[Path], Path]], str]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """Code of a tool that writes and prints what our ``hb_mapper`` makes of a network: it converts each only once."""

    @cache
    def code(write: Callable[[Path], Path]) -> str:
        folder = tmp_path_factory.mktemp("converted")
        config = write(folder)
        with chdir(folder):
            done = CliRunner().invoke(hb_mapper, ["makertbin", "--config", str(config), "--model-type", "onnx"])
        assert done.exit_code == 0, done.output
        (folder / "log").write_text(done.stdout, encoding="utf-8")
        return REPLAY.format(made=str(folder))

    return code


REPLAY = """
import pathlib, shutil, sys
if "--version" in sys.argv:
    print("hb_mapper, version 0")
    sys.exit()
made, config = pathlib.Path({made!r}), pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
shutil.copytree(made / "model_output", config.parent / "out")
print((made / "log").read_text(encoding="utf-8"))
"""


def recorder(folder: Path, code: str, **options: object) -> CaseRecorder:
    time_limit = options.pop("time_limit", 120.0)
    known = {"runtime": None, "to": folder / "cases", "weights": True}
    return CaseRecorder(tool=Toolchain(tool(folder, code), time_limit), **{**known, **options})  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_recorded_case_equals_itself(tmp_path: Path) -> None:
    """Our own hb_mapper in the place of the original: everything that can agree does."""
    config = write_network(tmp_path)
    folder = recorder(tmp_path, OURS, runtime=Command.parse(RUNTIME, "--runtime")).record(config).folder
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


def test_several_inputs_and_subgraphs(tmp_path: Path, replay: Replay) -> None:
    config = write_two_inputs(tmp_path)
    folder = (
        recorder(tmp_path, replay(write_two_inputs), runtime=Command.parse(RUNTIME, "--runtime")).record(config).folder
    )
    (case,) = find_cases(folder)
    assert set(case.samples()[1].inputs) == {"a", "b"}
    assert len(case.latencies_us) > 1
    row = measure(case, tmp_path / "work")
    assert (row.departure, row.outputs, row.simulator) == (None, True, True)


def test_without_weights_nothing_of_the_weights_is_kept(tmp_path: Path, replay: Replay) -> None:
    config = write_network(tmp_path)
    folder = recorder(tmp_path, replay(write_network), weights=False).record(config).folder
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
        recorder(tmp_path, TRACEBACK, weights=False).record(config)


@pytest.mark.parametrize("write", [write_network, write_two_inputs])
def test_without_weights_the_structure_is_compared(
    tmp_path: Path, write: Callable[[Path], Path], replay: Replay
) -> None:
    config = write(tmp_path)
    recorder(tmp_path, replay(write), weights=False).record(config)
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
    assert case.refusal == "Input 0 is not supported"
    assert (row.outcome, row.converts) == (Ending.CONVERTED, False)
    assert row.departure is not None
    assert row.departure.stage is ComparedStage.REFUSAL


def test_a_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    code = "import sys, time; time.sleep(0 if '--version' in sys.argv else 60)"
    folder = recorder(tmp_path, code, time_limit=1.0).record(config).folder
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


def test_a_runtime_that_fails_is_an_error(tmp_path: Path, replay: Replay) -> None:
    config = write_network(tmp_path)
    runtime = Command.parse(f"{sys.executable} -c 'import sys; sys.exit(\"no license\")'", "--runtime")
    with pytest.raises(ConfigError, match="no license"):
        recorder(tmp_path, replay(write_network), runtime=runtime).record(config)


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


TRACEBACK = """
import sys
print("2026-01-01 00:00:00,000 INFO Start to calibrate the model.")
print("\\rcalibration in progress:   0%|          | 0/1", end="")
print()
print("2026-01-01 00:00:00,001 ERROR exception in command: makertbin")
print("Traceback (most recent call last):")
print('  File "/home/me/toolchain/secret.py", line 7, in run')
print("    raise ValueError(inner.source)")
print("ValueError: these operators are not supported: /home/me/work/net.onnx")
sys.exit(1)
"""


def test_a_failed_conversion_keeps_its_reason_and_nothing_of_the_tools_or_users_files(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    found = recorder(tmp_path, TRACEBACK).record(config)
    assert found.failure == "ValueError: these operators are not supported: net.onnx"
    kept = (found.folder / "result.json").read_text()
    assert not any(text in kept for text in ("secret.py", "inner.source", "/home/me", str(tmp_path), "0%|"))
    assert json.loads(kept)["tail"][-1] == found.failure
    assert all(json.loads(kept)["tail"])


def run_record(folder: Path, command: Command, *arguments: str) -> Result:
    options = ["record", "--toolchain", shlex.join(command.words), "-o", str(folder / "cases"), *arguments]
    return CliRunner().invoke(app, options)


def test_a_refused_conversion_says_why_in_one_line_and_exits_1(tmp_path: Path) -> None:
    config = write_network(tmp_path)
    done = run_record(tmp_path, tool(tmp_path, TRACEBACK), str(config))
    assert done.exit_code == EXIT_REFUSED
    assert done.stdout == f"{tmp_path / 'cases' / 'net'}\n"
    assert done.stderr == f"{config}: not converted: ValueError: these operators are not supported: net.onnx\n"


def test_resuming_leaves_what_is_there_and_asks_again_what_was_cut_off(tmp_path: Path, replay: Replay) -> None:
    config = write_network(tmp_path)
    slow = tool(tmp_path, "import sys, time; time.sleep(0 if '--version' in sys.argv else 60)")
    assert run_record(tmp_path, slow, "--time-limit", "1", str(config)).exit_code == EXIT_REFUSED
    ours = tool(tmp_path, replay(write_network))
    again = run_record(tmp_path, ours, "--resume", str(config))
    assert (again.exit_code, again.stderr) == (0, "")
    assert json.loads((tmp_path / "cases" / "net" / "result.json").read_text())["rc"] == 0
    left = run_record(tmp_path, tool(tmp_path, "import sys; sys.exit(3)"), "--resume", str(config))
    assert (left.exit_code, left.stdout) == (0, f"{tmp_path / 'cases' / 'net'} (recorded before)\n")


def test_several_at_a_time_are_recorded_in_their_order(tmp_path: Path) -> None:
    configs = []
    for name in ("one", "two", "three"):
        config = write_network(tmp_path / name)
        configs.append(str(config.rename(config.with_name(f"{name}.yaml"))))
    done = run_record(tmp_path, tool(tmp_path, TRACEBACK), "--workers", "3", *configs)
    assert [Path(line).name for line in done.stdout.splitlines()] == ["one", "two", "three"]
    twice = run_record(tmp_path, tool(tmp_path, TRACEBACK), configs[0], configs[0])
    assert isinstance(twice.exception, ConfigError)
    assert "one: several configurations" in str(twice.exception)


INSIDE = """
import os, pathlib, sys
shown = lambda text: text.replace("/inside/", os.environ["OUTSIDE"] + "/")
words = [shown(word) for word in sys.argv[1:]]
if "--config" in words:
    config = pathlib.Path(words[words.index("--config") + 1])
    assert os.environ["OUTSIDE"] not in config.read_text()
    config.write_text(shown(config.read_text()))
sys.argv[1:] = words
"""


@pytest.mark.nightly
def test_a_toolchain_that_sees_folders_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: every path that it is given is one of the container's."""
    config = write_network(tmp_path)
    monkeypatch.setenv("OUTSIDE", str(tmp_path))
    words = tool(tmp_path, INSIDE + OURS).words
    inside = Command.parse(shlex.join(words), "--toolchain", [f"{tmp_path}=/inside"])
    runner = tmp_path / "runtime.py"
    runner.write_text(INSIDE + "from engine.compat.__main__ import main; main()")
    runtime = Command.parse(f"{shlex.quote(sys.executable)} {runner}", "--runtime", [f"{tmp_path}=/inside"])
    found = CaseRecorder(Toolchain(inside), runtime, tmp_path / "cases", weights=True).record(config)
    assert found.failure == ""
    assert (found.folder / "io.npz").is_file()


@pytest.mark.original
def test_the_original_is_recorded_with_the_outputs_of_its_runtime(tmp_path: Path) -> None:
    """Version 1.24.3: its runtime has ``run`` and no ``run_feature``."""
    toolchain, runtime = os.environ["PTQLAB_HB_MAPPER"], os.environ.get("PTQLAB_HB_PYTHON")
    if runtime is None:
        pytest.skip("PTQLAB_HB_PYTHON names no Python with horizon_tc_ui")
    config = write_network(tmp_path)
    known = Toolchain(Command.parse(toolchain, "PTQLAB_HB_MAPPER"))
    to = tmp_path / "cases"
    CaseRecorder(known, Command.parse(runtime, "PTQLAB_HB_PYTHON"), to, weights=True).record(config)
    (case,) = find_cases(to)
    row = measure(case, tmp_path / "work")
    assert (row.departure, row.outputs, row.simulator) == (None, True, True)


def test_one_bad_configuration_does_not_stop_the_others(tmp_path: Path, replay: Replay) -> None:
    config = write_network(tmp_path)
    command = tool(tmp_path, replay(write_network))
    options = ["record", "--toolchain", shlex.join(command.words), "-o", str(tmp_path / "cases")]
    done = CliRunner().invoke(app, [*options, str(tmp_path / "missing.yaml"), str(config)])
    assert done.exit_code == ConfigError.exit_code
    assert "missing.yaml" in done.stderr
    assert (tmp_path / "cases" / "net" / "result.json").is_file()
