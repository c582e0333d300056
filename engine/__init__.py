"""The conversion engine: float model in, BPU integers, simulator and ``.bin`` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.compat.runtime import HB_ONNXRuntime
    from engine.simulate import Session

__all__ = ["HB_ONNXRuntime", "Session"]


def __getattr__(name: str) -> Any:
    """Sessions need ONNX Runtime and numba; commands that do not run models must not pay for importing them."""
    if name == "HB_ONNXRuntime":
        from engine.compat import runtime

        return runtime.HB_ONNXRuntime
    if name == "Session":
        from engine import simulate

        return simulate.Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
