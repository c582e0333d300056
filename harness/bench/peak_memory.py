"""Peak memory of one way to run a model, measured in a process of its own.

``python -m harness.bench.peak_memory fast|float MODEL BATCH THREADS`` runs the model on noise and prints the peak of
resident
memory in bytes. The float contender imports nothing but ONNX Runtime and numpy: what an engineer's own script would.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.errors import ModelError

CALLS = 3
"""Calls after loading, so that buffers which grow with use are seen."""

DTYPES = {"tensor(float)": "float32", "tensor(int8)": "int8", "tensor(uint8)": "uint8", "tensor(int16)": "int16"}
"""ONNX Runtime's names of the types that float stages take."""


class Contender(StrEnum):
    """What runs the model."""

    FAST = "fast"
    FLOAT = "float"


def peak_memory(contender: Contender, model: Path, batch: int, threads: int) -> int:
    """Peak resident memory in bytes of a new process that loads ``model`` and runs it on ``batch`` samples.

    Args:
        contender: ``fast`` for our simulator on a quantised model, ``float`` for ONNX Runtime on a standard one.
        model: ONNX file; for ``float`` with a batch dimension that is symbolic or equal to ``batch``.
        batch: samples per call.
        threads: of the contender.

    Raises:
        ModelError: the process failed.
    """
    command = [sys.executable, "-m", "harness.bench.peak_memory", contender, str(model), str(batch), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(f"{model}: measuring memory failed: {reason}")
    return int(done.stdout)


def _main(contender: str, model: str, batch: str, threads: str) -> None:
    runners = {Contender.FAST: _run_fast, Contender.FLOAT: _run_float}
    runners[Contender(contender)](model, int(batch), int(threads))
    sys.stdout.write(str(current_peak()))


def _run_fast(model: str, batch: int, threads: int) -> None:
    from engine import Session
    from engine.simulate.tensors import random_feed

    simulator = Session(model, threads=threads)
    feed = random_feed(simulator.inputs, batch)
    for _ in range(CALLS):
        simulator.run(feed)


def _run_float(model: str, batch: int, threads: int) -> None:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed: dict[str, Any] = {}
    for info in session.get_inputs():
        shape = [batch if axis == 0 and not isinstance(size, int) else size for axis, size in enumerate(info.shape)]
        feed[info.name] = np.zeros(shape, DTYPES[info.type])
    for _ in range(CALLS):
        session.run(None, feed)


def reset_peak() -> None:
    """Let :func:`current_peak` count from now on, where the system can (Linux)."""
    counters = Path("/proc/self/clear_refs")
    if counters.is_file():
        counters.write_text("5")


def current_peak() -> int:
    """Peak resident memory of this process; ``VmHWM`` where there is one, for ``ru_maxrss`` counts the parent's too."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    _main(*sys.argv[1:])
