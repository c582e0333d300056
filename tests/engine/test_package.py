"""What ``import engine`` offers, and what it does not pay for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import engine
from engine.compat.runtime import HB_ONNXRuntime
from engine.simulate import Session
from tests.conftest import ROOT


def test_sessions_are_found_when_they_are_asked_for() -> None:
    assert (engine.HB_ONNXRuntime, engine.Session) == (HB_ONNXRuntime, Session)
    with pytest.raises(AttributeError, match="module 'engine' has no attribute 'Nothing'"):
        _ = engine.Nothing


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in engine.__all__:
        assert getattr(engine, name).__doc__, name


def test_importing_the_engine_brings_no_runtime() -> None:
    code = "import sys, engine; print({'onnxruntime', 'numba', 'onnx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
