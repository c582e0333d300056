"""The checker starts without what it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "suites" / "zoo" / "mnist_resnet8.onnx"
UNUSED = ("onnxruntime", "PIL", "sympy.core", "numba", "pandas", "torch", "mlflow", "plotly", "sklearn")


def run(code: str, folder: Path) -> str:
    """What Python prints for ``code``, in a process of its own."""
    finished = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return finished.stdout.splitlines()[-1]


def test_a_check_loads_no_package_that_it_does_not_use(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.cli.start import prepare; prepare(); from engine.cli.vendor.hb_mapper import app; "
        f"app(['checker', '--model-type', 'onnx', '--march', 'bayes-e', '--model', {str(MODEL)!r}], "
        "standalone_mode=False); "
        f"print([name for name in {UNUSED!r} if name in sys.modules])"
    )
    assert run(code, tmp_path) == "[]"


def test_deferred_modules_load_when_they_are_used(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.cli.start import prepare; prepare(); import onnx_ir; "
        "before = 'sympy.core' in sys.modules; "
        "size = onnx_ir.SymbolicDim('N') + 1; "
        "print(before, size.value, 'sympy.core' in sys.modules)"
    )
    assert run(code, tmp_path) == "False N + 1 True"


def test_importing_the_commands_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    code = (
        "import gc, sys; before = (gc.get_threshold(), list(sys.meta_path)); "
        "import engine.cli.start, engine.cli.lab, engine.cli.vendor.hb_mapper, harness.cli.start, harness.cli.main; "
        "print(before == (gc.get_threshold(), list(sys.meta_path)))"
    )
    assert run(code, tmp_path) == "True"
