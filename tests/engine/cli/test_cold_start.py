"""A start imports what it needs and nothing else; the checker too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "suites" / "zoo" / "mnist_resnet8.onnx"
UNUSED = (
    *("onnxruntime", "PIL", "sympy.core", "numba", "pandas", "torch", "mlflow", "plotly", "sklearn", "scipy"),
    *("onnxscript", "onnx.reference", "numpy.random"),
    *("engine.debug", "engine.evaluate", "engine.frontend.caffe", "engine.optimize.activation_patterns", "engine.tune"),
)
"""What a check of a network of convolutions, sums and a dense layer does without."""

HELP = "import sys; sys.argv = [{command!r}, '--help']; from {module} import {function} as main"
TERMINAL = frozenset(
    {
        "typer",
        "click",
        "shellingham",
        "rich",
        "annotated_doc",
        "typing_extensions",
        "colorama",
        "yaml",
        "cython_runtime",
    }
)
"""What help texts are written with, and what reads the files of the chips that they name.

Not what rich writes Markdown, programs and tracebacks with.
"""
GRAPHS = frozenset(
    {"numpy", "ml_dtypes", "onnx", "onnx_ir", "google", "sympy", "mpmath", "gmpy2", "llvmlite", "typing_extensions"}
) | {"packaging"}
"""What reads a quantised model and links its kernels."""
STARTS = {
    "import engine": ("import engine; main = lambda: None", frozenset()),
    "session": ("from engine import HB_ONNXRuntime; main = lambda: None", GRAPHS),
    "ptqlab --help": (
        HELP.format(command="ptqlab", module="harness.cli.start", function="ptqlab"),
        TERMINAL,
    ),
    "hb_mapper --help": (
        HELP.format(command="hb_mapper", module="engine.cli.start", function="hb_mapper"),
        TERMINAL,
    ),
}
"""Code that starts, and the packages besides Python's own and ours that it may import."""
LIST = """
try:
    main()
except SystemExit:
    pass
tops = {name.partition(".")[0] for name in sys.modules} - {"engine", "harness", "__main__", "__mp_main__"}
print(sorted(tops - sys.stdlib_module_names - {name.partition(".")[0] for name in started}))
"""


@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_no_package_that_it_may_not(start: str, tmp_path: Path) -> None:
    code, allowed = STARTS[start]
    found = set(ast.literal_eval(run(f"import sys; started = set(sys.modules)\n{code}\n{LIST}", tmp_path)))
    assert not {name for name in found if not name.startswith("_")} - allowed


def test_a_list_of_commands_imports_no_page_and_runs_no_deferred_module(tmp_path: Path) -> None:
    unused = ("engine.pages", "engine.config", "rich.pretty", "rich.syntax", "importlib.resources")
    code = f"{STARTS['ptqlab --help'][0]}\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
    code += f"print([name for name in {unused!r} if name in sys.modules])"
    assert run(code, tmp_path) == "[]"


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


def test_a_session_does_not_load_what_waits(tmp_path: Path) -> None:
    code = (
        "import sys; before = list(sys.meta_path); from engine import Session; "
        "print('onnx_ir' in sys.modules, 'sympy.core' in sys.modules, before == sys.meta_path)"
    )
    assert run(code, tmp_path) == "True False True"
