"""Float models in ONNX Runtime, as the harness runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_ERRORS = 3
"""Severity below which ONNX Runtime prints nothing. Of a file that declares other shapes than its outputs have, it
would print a line per image; :attr:`harness.onboarding.network_file.NetworkFile.remarks` says it once."""


def float_session(path: Path, threads: int = 0) -> Any:
    """An ``onnxruntime.InferenceSession`` of ``path`` on the CPU that prints errors only.

    Args:
        path: ONNX file.
        threads: that an operator may use; 0 for one per core. With one, sums are taken in one order on every machine.
    """
    import onnxruntime  # here, so that reading cards does not wait for it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
