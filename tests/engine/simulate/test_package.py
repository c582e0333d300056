"""Names of the simulators, looked up when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine import simulate
from engine.simulate.session import Mode, Session
from engine.simulate.tensors import TensorInfo


def test_names_are_those_of_the_modules() -> None:
    assert (simulate.Mode, simulate.Session, simulate.TensorInfo) == (Mode, Session, TensorInfo)
    with pytest.raises(AttributeError, match=r"module 'engine.simulate' has no attribute 'Simulator'"):
        _ = simulate.Simulator


def test_a_session_needs_no_compiler_where_kernels_are_built() -> None:
    """numba and LLVM take 40 MB and most of a second; at night the kernels themselves run without them."""
    code = "import sys; sys.modules.update(dict.fromkeys(('numba', 'llvmlite'))); import engine.simulate.session"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
