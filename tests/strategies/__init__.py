"""Hypothesis strategies: small ONNX graphs by construction, with inputs that fit them."""
