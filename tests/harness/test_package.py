"""What ``import harness`` offers, and what it does not pay for."""

from __future__ import annotations

import subprocess
import sys

import harness
from tests.conftest import ROOT


def test_every_public_name_is_there_and_has_a_docstring() -> None:
    for name in harness.__all__:
        assert getattr(harness, name).__doc__, name


def test_importing_the_harness_brings_no_mlflow() -> None:
    code = "import sys, harness; print({'mlflow', 'numpy', 'onnx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
