"""Softmax in float32: its definition, compiled loops, and what ONNX Runtime computes to the same bits."""
