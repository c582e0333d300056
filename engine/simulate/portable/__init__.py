"""Quantised models rewritten with standard ONNX operators."""

from engine.simulate.portable.export import TRANSLATIONS, to_standard

__all__ = ["TRANSLATIONS", "to_standard"]
