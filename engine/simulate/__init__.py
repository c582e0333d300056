"""Simulators of quantised models, and sessions that run any stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.simulate.loaders import register_loader

if TYPE_CHECKING:
    from engine.simulate.session import Mode, Session
    from engine.simulate.tensors import TensorInfo

__all__ = ["Mode", "Session", "TensorInfo", "register_loader"]


def __getattr__(name: str) -> Any:
    """Sessions need numba; what only registers a loader must not pay for importing it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.simulate import session, tensors

    return getattr(tensors if name == "TensorInfo" else session, name)
