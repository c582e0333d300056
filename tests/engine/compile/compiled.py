"""A small compiled model to take apart: a golden conversion, residual, one subgraph between two float borders."""

from __future__ import annotations

from functools import cache

from engine.compile.compiler import CompiledModel, CompileOptions, compile_model
from engine.ir import load_model
from tests.golden_cases import BUNDLED

RESIDUAL = BUNDLED / "conversions" / "res.quant.onnx"


@cache
def residual(name: str = "net", debug: bool = False) -> CompiledModel:
    """It is not to be changed."""
    return compile_model(load_model(RESIDUAL), "bayes-e", CompileOptions(debug=debug), name)
