"""Small helpers on ``onnx_ir`` models that every stage uses: domains, marks, reading constants and attributes."""
