"""The Python that has what opens a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError, MissingError
from harness.checkpoints.user_python import python_with
from tests.harness.checkpoints.made import python_with_ultralytics


def test_the_first_that_has_the_package_is_taken(tmp_path: Path) -> None:
    assert python_with("onnx", None, "").program == Path(sys.executable)
    program = python_with_ultralytics(tmp_path)
    assert python_with("ultralytics", program, "").program == program
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(program)
    found = python_with("ultralytics", tmp_path / "venv", "").program
    assert found == tmp_path / "venv" / "bin" / "python"  # a link is the interpreter of an environment


def test_where_none_has_it_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=f"no_such_package is not in {sys.executable}: install it"):
        python_with("no_such_package", None, "install it")
    with pytest.raises(ConfigError, match=r"--python .*gone: no such program; give the Python of an environment"):
        python_with("onnx", tmp_path / "gone", "")


def test_a_package_in_the_working_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "local_package.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="local_package is not in"):
        python_with("local_package", Path(sys.executable), "")


def test_a_script_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1])\nsys.exit(3)\n")
    found = python_with("onnx", Path(sys.executable), "").run(tmp_path / "script.py", tmp_path / "job", 60)
    assert (found.code, found.text) == (3, f"{tmp_path}/job\n")
