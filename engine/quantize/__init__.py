"""From calibrated to quantised: every BPU node becomes integer operators of domain ``horizon``."""

from engine.quantize.lowering import quantize

__all__ = ["quantize"]
