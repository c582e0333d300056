"""Simulators of quantised models, and sessions that run any stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.exports import lazily
from engine.simulate.loaders import register_loader

if TYPE_CHECKING:
    from engine.simulate.session import Mode, Session
    from engine.simulate.tensors import TensorInfo

__all__ = ["Mode", "Session", "TensorInfo", "register_loader"]

# Sessions need numba; what only registers a loader must not pay for importing it.
__getattr__ = lazily(
    __name__,
    {
        "Mode": "engine.simulate.session",
        "Session": "engine.simulate.session",
        "TensorInfo": "engine.simulate.tensors",
    },
)
