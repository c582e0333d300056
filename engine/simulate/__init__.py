"""Simulators of quantised models, and sessions that run any stage."""

from engine.simulate.loaders import register_loader
from engine.simulate.session import HB_ONNXRuntime, Mode, Session
from engine.simulate.tensors import TensorInfo

__all__ = ["HB_ONNXRuntime", "Mode", "Session", "TensorInfo", "register_loader"]
