"""What quantises a model for a trial: the bundled engine, ONNX Runtime, or the vendor's converter."""
