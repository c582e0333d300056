"""The conversion engine: float model in, BPU integers, simulator and ``.bin`` out.

What ``__all__`` names here and in :mod:`engine.convert` is the public interface and follows semantic versioning;
everything else may change in any release. Names are imported when they are first used, so that ``import engine`` is
quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import PtqlabError
from engine.exports import lazily

if TYPE_CHECKING:
    from engine.compat.runtime import HB_ONNXRuntime
    from engine.compile import CompiledModel, compile_model, load_bin
    from engine.config import Config, load_config
    from engine.convert import ConversionResult, Draft, check
    from engine.perf import Performance, estimate
    from engine.simulate import Session

__all__ = [
    "CompiledModel",
    "Config",
    "ConversionResult",
    "Draft",
    "HB_ONNXRuntime",
    "Performance",
    "PtqlabError",
    "Session",
    "check",
    "compile_model",
    "estimate",
    "load_bin",
    "load_config",
]

__getattr__ = lazily(
    __name__,
    {
        "HB_ONNXRuntime": "engine.compat.runtime",
        "CompiledModel": "engine.compile",
        "Config": "engine.config",
        "ConversionResult": "engine.convert",
        "Draft": "engine.convert",
        "Performance": "engine.perf",
        "Session": "engine.simulate",
        "check": "engine.convert",
        "compile_model": "engine.compile",
        "estimate": "engine.perf",
        "load_bin": "engine.compile",
        "load_config": "engine.config",
    },
)
