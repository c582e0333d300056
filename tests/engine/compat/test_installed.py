"""Look-alike packages on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.compat.command import app
from engine.compat.installed import packages, remove_packages, write_packages
from engine.errors import ConfigError
from tests.conftest import ROOT

SCRIPT = """
from horizon_tc_ui import HB_ONNXRuntime
import horizon_nn.debug as dbg
from horizon_nn.custom import op_register
import hmct.api
print(HB_ONNXRuntime.__module__, callable(dbg.get_sensitivity_of_nodes), callable(hmct.api.infer))
"""


def test_a_plain_interpreter_imports_them_and_nothing_runs_before(tmp_path: Path) -> None:
    files = write_packages(tmp_path)
    assert {file.relative_to(tmp_path).parts[0] for file in files} == set(packages())
    assert not list(tmp_path.glob("*.pth"))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ["engine.compat.runtime", "True", "True"], run.stderr
    assert write_packages(tmp_path) == files
    assert {place.name for place in remove_packages(tmp_path)} == set(packages())
    assert not list(tmp_path.iterdir())


def test_a_real_installation_is_not_shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "site" / "horizon_nn"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("real = True\n")
    with pytest.raises(ConfigError, match="horizon_nn is already installed and does not belong to ptqlab"):
        write_packages(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(ConfigError, match="horizon_nn is already installed"):
        write_packages(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert remove_packages(tmp_path / "site") == []
    assert (real / "__init__.py").read_text() == "real = True\n"


def test_the_command(tmp_path: Path) -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["install", "--target", str(tmp_path)]).output
    assert shown.startswith("horizon_tc_ui, horizon_nn, hmct: ")
    assert str(tmp_path / "hmct") in runner.invoke(app, ["uninstall", "--target", str(tmp_path)]).output
    assert "ptqlab has installed nothing there" in runner.invoke(app, ["uninstall", "--target", str(tmp_path)]).output
