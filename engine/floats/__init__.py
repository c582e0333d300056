"""Float networks: sessions of ONNX Runtime on samples, and the nodes that ptqlab computes itself."""
