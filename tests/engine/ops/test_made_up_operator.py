"""One file and one line add an operator: a made-up one goes through every stage and backend."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.ops.core.base import QuantizedOperator
from engine.ops.registry import entries_of

ROOT = Path(__file__).resolve().parents[3]
MADE_UP = Path(__file__).parent / "made_up" / "made_up.py"
LINE, BEFORE = "    made_up,\n", "    matmul,\n"
"""What is added to the registry, and the line that it is put in front of."""


def engine_with_made_up(folder: Path) -> Path:
    """A folder whose ``engine`` is this one but for one more file among the operators and its line in the registry."""
    package = folder / "engine"
    package.mkdir()
    for path in (ROOT / "engine").iterdir():
        if path.name not in ("ops", "__pycache__"):
            (package / path.name).symlink_to(path)
    shutil.copytree(ROOT / "engine" / "ops", package / "ops", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(MADE_UP, package / "ops")
    registry = package / "ops" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    assert text.count(BEFORE) == 1
    registry.write_text(text.replace(BEFORE, LINE + BEFORE), encoding="utf-8")
    return folder


@pytest.mark.nightly
def test_one_file_and_one_line_add_an_operator(tmp_path: Path) -> None:
    folder = engine_with_made_up(tmp_path)
    command = [sys.executable, "-m", "tests.engine.ops.made_up.conversion"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT)))}
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert 0 < found.pop("bound in units") < 1e-4
    assert found.pop("tiles") == 12
    assert found == {
        "placed on the BPU": True,
        "of rank 3": "only rank-4 tensors are negated on the BPU",
        "quantised as": ["HzMadeUp"],
        "fast equals reference": True,
        "interpreted": 0,
        "cost": "lut",
        "tiles equal": True,
        "predicted": True,
        "exported domains": ["", "ptqlab"],
        "exported equals reference": True,
    }


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("    op_type = ", "op_type"),
        ("    float_types = ", "float_types"),
        ("    cost = ", "cost"),
        ("    rows = ", "rows"),
        ("    instructions = ", "instructions"),
        ("    def error_bound", "error_bound"),
        ("    def portable", "portable"),
        ("    def reference", "reference"),
    ],
)
def test_an_operator_that_leaves_out_an_entry_is_refused_by_name(entry: str, said: str, tmp_path: Path) -> None:
    """Whatever backend is forgotten: the registry cannot be built, and the message names operator and entry."""
    text = MADE_UP.read_text(encoding="utf-8")
    assert text.count(entry) == 1
    path = tmp_path / "forgetful.py"
    path.write_text(text.replace(entry, entry.replace(said, f"no_{said}")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("forgetful", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(TypeError, match=rf"MadeUp.*\b{said}\b"):
        entries_of(module, QuantizedOperator, "op_type")
