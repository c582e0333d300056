"""Names of the room, looked up when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine import convert
from engine.convert import converter
from tests.conftest import ROOT


def test_every_name_is_found() -> None:
    assert all(getattr(convert, name) is not None for name in convert.__all__)
    assert convert.ConversionResult is converter.ConversionResult
    with pytest.raises(AttributeError, match=r"module 'engine.convert' has no attribute 'nothing'"):
        _ = convert.nothing


def test_who_imports_the_runner_does_not_import_the_converter() -> None:
    code = "import sys, engine.convert.runner; print('engine.convert.converter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
