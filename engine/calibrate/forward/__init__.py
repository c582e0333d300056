"""Forwards of the float stages in ONNX Runtime."""
