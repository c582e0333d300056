"""``python -m engine.compat``: a script with its own arguments and folder, among the look-alikes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.compat import uninstall
from engine.compat.__main__ import main

SCRIPT = """
import sys
import helper
from horizon_tc_ui import HB_ONNXRuntime
sys.ran = (__name__, sys.argv, helper.value, HB_ONNXRuntime.__name__)
"""


def test_a_script_runs_as_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("value = 7\n")
    script = str(tmp_path / "script.py")
    monkeypatch.setattr(sys, "argv", ["compat", script, "one", "--two"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        main()
        assert sys.ran == ("__main__", [script, "one", "--two"], 7, "HB_ONNXRuntime")
        assert sys.path[0] == str(tmp_path)
    finally:
        uninstall()
        del sys.ran
        sys.modules.pop("helper", None)


def test_without_a_script_the_usage_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compat"])
    with pytest.raises(SystemExit, match=r"usage: python -m engine.compat script.py \[arguments\]"):
        main()
