"""CPU seconds of a start: imports, ``--help``, a check, and the first image in a fresh installation and after it.

``python -m benchmarks.cold_start quantized.onnx float.onnx`` runs each in a process of its own, with an empty folder
for compiled kernels where it says "fresh", and prints the median of ``--rounds`` runs. The check is that of a chain of
100 convolutions and 100 Relu, by ``ptqlab check``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

from benchmarks.installed import environment
from benchmarks.speed.structures.builder import Builder

HELP = "import sys; sys.argv = [{command!r}, '--help']; from {module} import {function}; {function}()"
STARTS = {
    "import engine": "import engine",
    "ptqlab --help": HELP.format(command="ptqlab", module="harness.cli.start", function="ptqlab"),
    "hb_mapper --help": HELP.format(command="hb_mapper", module="engine.cli.start", function="hb_mapper"),
}
CHECK = "import sys; sys.argv[0:1] = ['ptqlab', 'check']; from harness.cli.start import ptqlab; ptqlab()"
CONVOLUTIONS = 100
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


def chain() -> onnx.ModelProto:
    """The network that is checked."""
    builder = Builder("chain", [1, 3, 32, 32])
    x = builder.conv(builder.input, 3, 8)
    for _ in range(CONVOLUTIONS - 1):
        x = builder.conv(x, 8, 8)
    return builder.finish(x)


def cpu_seconds(code: str, *arguments: str, cache: str, bytecode: Path) -> float:
    """User and system time of a child process that runs ``code``, with compiled kernels kept in ``cache``."""
    before = os.times()
    started = {**environment(bytecode), "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", code, *arguments], env=started, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quantized", help="a quantised network")
    parser.add_argument("float", help="its float network, for ONNX Runtime")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept, bytecode, network = f"{folder}/kernels", Path(folder, "bytecode"), f"{folder}/chain.onnx"
        onnx.save(chain(), network)

        def median(code: str, *arguments: str, cache: str | None = kept) -> float:
            """Of all rounds; ``cache`` None for an empty one in every round. The first run of ``code`` is no round."""
            cpu_seconds(code, *arguments, cache=kept, bytecode=bytecode)
            found = []
            for _ in range(given.rounds):
                with tempfile.TemporaryDirectory() as empty:
                    found.append(cpu_seconds(code, *arguments, cache=cache or empty, bytecode=bytecode))
            return statistics.median(found)

        for name, code in STARTS.items():
            print(f"{name:42s} {median(code):6.2f}")
        print(f"{'ptqlab check, 200 nodes':42s} {median(CHECK, network):6.2f}")
        theirs = median(THEIRS, given.float)
        print(f"{'first image, ONNX Runtime float':42s} {theirs:6.2f}")
        print(f"{'first image, fresh, more than that':42s} {median(OURS, given.quantized, cache=None) - theirs:6.2f}")
        print(f"{'first image, cached, more than that':42s} {median(OURS, given.quantized) - theirs:6.2f}")


if __name__ == "__main__":
    main()
