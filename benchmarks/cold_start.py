"""CPU seconds of a start: imports, ``--help``, and the first image in a fresh installation and after it.

``python -m benchmarks.cold_start quantized.onnx float.onnx`` runs each in a process of its own, with an empty folder
for compiled code where it says "fresh", and prints the median of ``--rounds`` runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HELP = "import sys; sys.argv = [{command!r}, '--help']; from {module} import {function}; {function}()"
STARTS = {
    "import engine": "import engine",
    "ptqlab --help": HELP.format(command="ptqlab", module="harness.cli.start", function="ptqlab"),
    "hb_mapper --help": HELP.format(command="hb_mapper", module="engine.cli.start", function="hb_mapper"),
}
FEED = """
import sys
import numpy as np, onnx
model = onnx.load(sys.argv[1], load_external_data=False).graph
feed = {
    value.name: np.zeros(
        [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim],
        onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
    )
    for value in model.input
    if value.name not in {constant.name for constant in model.initializer}
}
"""
OURS = FEED + "from engine.simulate import Session\nSession(sys.argv[1]).run(feed)"
THEIRS = FEED + "import onnxruntime\nonnxruntime.InferenceSession(sys.argv[1]).run(None, feed)"


def cpu_seconds(code: str, *arguments: str, cache: str) -> float:
    """User and system time of a child process that runs ``code``, with compiled code kept in ``cache``."""
    before = os.times()
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quantized", help="a quantised network")
    parser.add_argument("float", help="its float network, for ONNX Runtime")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as kept:
        for name, code in STARTS.items():
            print(f"{name:42s} {statistics.median(cpu_seconds(code, cache=kept) for _ in range(given.rounds)):6.2f}")
        theirs = statistics.median(cpu_seconds(THEIRS, given.float, cache=kept) for _ in range(given.rounds))
        print(f"{'first image, ONNX Runtime float':42s} {theirs:6.2f}")
        fresh = []
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as empty:
                fresh.append(cpu_seconds(OURS, given.quantized, cache=empty))
        print(f"{'first image, fresh, more than that':42s} {statistics.median(fresh) - theirs:6.2f}")
        cpu_seconds(OURS, given.quantized, cache=kept)
        cached = statistics.median(cpu_seconds(OURS, given.quantized, cache=kept) for _ in range(given.rounds))
        print(f"{'first image, cached, more than that':42s} {cached - theirs:6.2f}")


if __name__ == "__main__":
    main()
