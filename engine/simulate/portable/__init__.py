"""Quantised models rewritten with standard ONNX operators."""

from engine.simulate.portable.export import to_standard

__all__ = ["to_standard"]
