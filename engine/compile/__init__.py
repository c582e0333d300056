"""Compilation: quantised model to ``.bin`` container, with a schedule per BPU subgraph."""

from __future__ import annotations

from engine.compile.compiler import CompiledModel, CompileOptions, compile_model, from_bytes, load_bin, load_quantized
from engine.compile.container import MAGIC
from engine.simulate.loaders import register_loader

__all__ = [
    "CompileOptions",
    "CompiledModel",
    "compile_model",
    "from_bytes",
    "load_bin",
]

register_loader(MAGIC, load_quantized)
