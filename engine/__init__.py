"""The conversion engine: float model in, BPU integers, simulator and ``.bin`` out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.simulate import HB_ONNXRuntime, Session

__all__ = ["HB_ONNXRuntime", "Session"]


def __getattr__(name: str) -> Any:
    """Sessions need ONNX Runtime and numba; commands that do not run models must not pay for importing them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine import simulate

    return getattr(simulate, name)
