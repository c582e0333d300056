"""Float models in ONNX Runtime, as the harness runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from engine.frontend.precision import compute_in_float32
from engine.ir import load_model, read_proto, to_bytes

_ERRORS = 3
"""Severity below which ONNX Runtime prints nothing. Of a file that declares other shapes than its outputs have, it
would print a line per image; :attr:`harness.onboarding.network_file.NetworkFile.remarks` says it once."""


def float_session(path: Path, threads: int = 0) -> Any:
    """An ``onnxruntime.InferenceSession`` of ``path`` on the CPU that prints errors only.

    A network with an input of float16 or float64 is opened as one of float32, as a conversion takes it.

    Args:
        path: ONNX file.
        threads: that an operator may use; 0 for one per core. With one, sums are taken in one order on every machine.
    """
    import onnxruntime  # here, so that reading cards does not wait for it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    content: Path | bytes = path
    if any(value.type.tensor_type.elem_type in _OTHER_FLOATS for value in read_proto(path).graph.input):
        model = load_model(path)
        compute_in_float32(model)
        content = to_bytes(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


_OTHER_FLOATS = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
