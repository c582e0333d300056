"""The tool converts, fails, hangs or writes nothing; where its command comes from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from engine.chips import March
from engine.errors import ConfigError
from engine.toolchain.command import CUT_OFF, Command
from engine.toolchain.tool import VARIABLE, Toolchain, find_toolchain


def toolchain(code: str, time_limit: float = 60.0) -> Toolchain:
    return Toolchain(Command.parse(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}", "--toolchain"), time_limit)


WRITES = """
import pathlib, sys
out = pathlib.Path("out"); out.mkdir()
for name in ("calibrated", "quantized"):
    (out / f"net_{name}_model.onnx").write_bytes(b"model")
(out / "net.bin").write_bytes(b"bin")
print("2026-01-01 00:00:00,000 INFO hb_mapper version 1.24.3")
print("2026-01-01 00:00:00,000 INFO Start to calibrate the model.")
print("2026-01-01 00:00:00,000 INFO Start to compile the model with march bayes-e.")
print("[=-   ]   3%"); print("[===-   ]  7%")
print("arguments", sys.argv[1:])
"""


def test_what_it_writes_is_found_and_its_progress_told(tmp_path: Path) -> None:
    told: list[str] = []
    done = toolchain(WRITES).convert(tmp_path / "net.yaml", tmp_path / "out", tell=told.append)
    assert (done.failure, done.version, sorted(done.models)) == ("", "1.24.3", ["calibrated", "quantized"])
    assert done.binary == tmp_path / "out" / "net.bin"
    assert told == ["calibrates", "compiles", "compiles, 3 %", "compiles, 7 %"]
    assert "'makertbin', '--config'" in done.text


def test_the_command_line_of_s100(tmp_path: Path) -> None:
    done = toolchain(WRITES).convert(tmp_path / "net.yaml", tmp_path / "out", march=March("nash-e"))
    assert "arguments ['--config'" in done.text


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("import sys; print('no licence'); sys.exit(2)", "no licence"),
        ("import sys; sys.exit(2)", "it printed nothing"),
        ("pass", "it reported success but wrote no *_quantized_model.onnx to out"),
        ("import time; time.sleep(60)", "it was ended after 1 s, the time limit"),
    ],
)
def test_a_failure_has_a_reason(tmp_path: Path, code: str, failure: str) -> None:
    done = toolchain(code, 1.0 if "sleep" in code else 60.0).convert(tmp_path / "net.yaml", tmp_path / "out")
    assert done.failure == failure
    assert (done.finished.code == CUT_OFF) == ("sleep" in code)


def test_its_version(tmp_path: Path) -> None:
    assert toolchain("print('hb_mapper, version 1.24.3')").version(tmp_path) == "hb_mapper, version 1.24.3"
    assert toolchain("pass").version(tmp_path) == ""


def test_where_the_command_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert find_toolchain(None) is None
    monkeypatch.setenv(VARIABLE, "python3 -c pass")
    known = find_toolchain(None)
    assert known is not None
    assert known.command.words[1:] == ("-c", "pass")
    monkeypatch.setenv(VARIABLE, "no-such-program")
    with pytest.raises(ConfigError, match=VARIABLE):
        find_toolchain(None)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ConfigError, match="--mount belongs to --toolchain"):
        find_toolchain(None, ["/tmp=/work"])
