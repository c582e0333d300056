"""Files of PyTorch, exported to ONNX in the user's own Python, and the data that ultralytics' YAML files name."""
