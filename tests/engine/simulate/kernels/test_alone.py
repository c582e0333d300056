"""The script that builds kernels needs numba alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.simulate.kernels import alone

SCRIPT = Path(alone.__file__).resolve()


def test_the_rest_of_the_engine_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.argv = ['alone', 'none']\n"
        "sys.modules.update(dict.fromkeys(('onnx', 'onnx_ir', 'onnxruntime', 'pydantic', 'yaml')))  # not there\n"
        "runpy.run_path(sys.path.pop(), run_name='__main__'); print('numba' in sys.modules)"
    )
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.append({str(SCRIPT)!r})\n{code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_other_words_are_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-P", str(SCRIPT), "bad"]
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert failed.returncode != 0
    assert failed.stderr.strip().splitlines()[-1] == "ValueError: levels are 'bad'; allowed: all, host, none"


def test_packages_around_the_kernels_are_where_the_script_looks() -> None:
    assert [alone.ROOT.joinpath(*name.split("."), "__init__.py").is_file() for name in alone.AROUND] == [True] * len(
        alone.AROUND
    )
