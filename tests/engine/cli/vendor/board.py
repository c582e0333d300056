"""Compiled models for the commands that read containers, and how the commands are called."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from engine.errors import PtqlabError
from tests.golden_cases import BUNDLED

GOLDEN = BUNDLED / "conversions"
QUANTIZED = GOLDEN / "res.quant.onnx"
IMAGE = GOLDEN / "p_rgb.quant.onnx"


def run(app: typer.Typer, *arguments: str, code: int = 0) -> str:
    """What a command prints; it must end with ``code``."""
    result = CliRunner().invoke(app, arguments)
    assert not isinstance(result.exception, PtqlabError)
    assert result.exit_code == code, result.output
    return result.output
