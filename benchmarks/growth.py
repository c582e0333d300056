"""How time and memory of the main jobs grow: nodes, weights, resolution, batch and samples.

``python -m benchmarks.growth nodes 100 1000 10000 --jobs check,convert`` makes a network for each size, runs every job
in a process of its own, and prints CPU seconds and peak memory beyond a process that did the imports, then the exponent
of a fitted power of the size, over all sizes and over the last two. An exponent of 1 is linear; n log n comes out near
1.1. Networks are chains of residual blocks of seeded weights (``nodes``), or four convolutions.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from benchmarks.speed.structures.builder import Activation, Builder

JOBS = ("check", "predict", "convert", "simulate", "bisect")
PREPARE = "prepare"
AXES = ("nodes", "weights", "resolution", "batch", "samples")
MARCH = "bayes-e"
CHANNELS = 8
NODES_PER_BLOCK = 5
EXTERNAL_FROM = 100_000_000
"""Bytes of weights from which they are in a file of their own."""
MEGABYTE = 1e6


def network(axis: str, size: int) -> onnx.ModelProto:
    """The network of one size: so many nodes, bytes of weights, rows and columns, or samples in a batch."""
    side = {"resolution": size, "samples": 4, "weights": 4}.get(axis, 16)
    batch = size if axis == "batch" else 1
    builder = Builder(axis, [batch, 3, side, side])
    width = max(CHANNELS, round(math.sqrt(size / 4 / 4))) if axis == "weights" else CHANNELS
    x = builder.conv(builder.input, 3, width, activation=Activation.RELU)
    if axis == "weights":
        for _ in range(4):
            x = builder.conv(x, width, width)
        return builder.finish(x)
    for _ in range(max(1, (size if axis == "nodes" else 2 * NODES_PER_BLOCK) // NODES_PER_BLOCK)):
        y = builder.conv(builder.conv(x, width, width, 3), width, width, activation=Activation.NONE)
        x = builder.op("Relu", builder.op("Add", x, y))
    return builder.finish(x)


def prepare(folder: Path, axis: str, size: int) -> None:
    """Write ``m.onnx``, calibration samples and ``c.yaml``."""
    model = network(axis, size)
    external = axis == "weights" and size >= EXTERNAL_FROM
    onnx.save(model, folder / "m.onnx", save_as_external_data=external, location="m.data")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    (folder / "data").mkdir()
    rng = np.random.default_rng(0)
    for index in range(size if axis == "samples" else 4):  # as many rows each as the network takes
        rng.normal(size=shape).astype(np.float32).tofile(folder / "data" / f"{index:06d}.bin")
    (folder / "c.yaml").write_text(
        f"""
model_parameters: {{onnx_model: m.onnx, march: {MARCH}, output_model_file_prefix: m, working_dir: out}}
input_parameters: {{input_type_train: featuremap, input_layout_train: NCHW, input_type_rt: featuremap}}
calibration_parameters: {{cal_data_dir: data, cal_data_type: float32, calibration_type: max}}
compiler_parameters: {{compile_mode: latency, optimize_level: O2}}
"""
    )


def job(name: str, size: int, axis: str) -> Callable[[], object]:
    """What is measured, imports done; it runs in the folder of :func:`prepare`."""
    import typer

    from engine.cli.lab.bisect import bisect
    from engine.config import load_config
    from engine.convert import Draft, check, convert
    from engine.perf import node_costs
    from engine.simulate import Session

    model = Path("m.onnx")

    def predicted() -> None:
        found = check(model, Draft(MARCH))
        models = found.models
        node_costs(found.performance, found.compiled.schedules, models["original_float"], models["calibrated"])

    def simulated() -> None:
        session = Session("out/m_quantized_model.onnx")
        (info,) = session.inputs
        count = size if axis == "samples" else 1
        step = max(1, min(count, 1000))
        for _ in range(0, count, step):
            session.run({info.name: np.zeros([step * info.shape[0], *info.shape[1:]], info.dtype)})

    def bisected() -> None:
        try:
            bisect(model, config=Path("c.yaml"), samples=1, as_json=True)
        except typer.Exit:  # a bound is broken: the search was done
            return

    jobs: dict[str, Callable[[], object]] = {
        "check": lambda: check(model, Draft(MARCH)),
        "predict": predicted,
        "convert": lambda: convert(load_config(Path("c.yaml"))),
        "simulate": simulated,
        "bisect": bisected,
    }
    return jobs[name]


def child(name: str, size: int, axis: str) -> None:
    """Run one job here; its CPU seconds and megabytes go to a file as JSON."""
    logging.disable(logging.WARNING)
    if name == PREPARE:
        prepare(Path(), axis, size)
        return
    run = job(name, size, axis)
    memory, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    run()
    seconds, grown = time.process_time() - seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    Path("measured.json").write_text(json.dumps([seconds, grown * 1024 / MEGABYTE]))


def start(name: str, size: int, axis: str, folder: Path, limit: float | None = None) -> bool:
    """Run one job in a process of its own; False where it took longer than ``limit`` seconds.

    Networks are prepared so too: the peak memory of a process counts that of the one that started it.
    """
    command = [sys.executable, "-m", "benchmarks.growth", axis, str(size), "--child", name]
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PTQLAB_MAX_NODES": str(10**7), "PYTHONPATH": root}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode:
        raise RuntimeError(f"{name} at {size}: {(done.stderr.strip().splitlines() or ['ended'])[-1]}")
    return True


def measure(name: str, size: int, axis: str, folder: Path, limit: float) -> tuple[float, float] | None:
    """CPU seconds and megabytes of one job; None where it took longer than ``limit`` seconds."""
    if not start(name, size, axis, folder, limit):
        return None
    seconds, megabytes = json.loads((folder / "measured.json").read_text())
    return seconds, megabytes


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Of the power of the size that fits best, in logarithms."""
    floor = 1e-2
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, floor)), 1)[0])


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axis", choices=AXES)
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--jobs", default=",".join(JOBS), help="joined by commas")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a job is given up")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.sizes[0], given.axis)
        return
    names = given.jobs.split(",")
    if unknown := set(names) - set(JOBS):
        parser.error(f"--jobs: {', '.join(sorted(unknown))} is none of {', '.join(JOBS)}")
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in names}
    sys.stdout.write(f"| {given.axis} | job | CPU s | MB |\n|---|---|---|---|\n")
    for size in sorted(given.sizes):
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            start(PREPARE, size, given.axis, folder)
            if "simulate" in names and "convert" not in names:
                measure("convert", size, given.axis, folder, given.limit)
            for name in sorted(names, key=JOBS.index):
                result = measure(name, size, given.axis, folder, given.limit)
                if result is None:
                    sys.stdout.write(f"| {size} | {name} | more than {given.limit:.0f} s | |\n")
                    continue
                found[name].append((size, *result))
                sys.stdout.write(f"| {size} | {name} | {result[0]:.2f} | {result[1]:.0f} |\n")
                sys.stdout.flush()
    for name, rows in found.items():
        if len(rows) > 1:
            sizes, seconds, megabytes = zip(*rows, strict=True)
            sys.stdout.write(
                f"{name}: time {exponent(sizes, seconds):.2f} ({exponent(sizes[-2:], seconds[-2:]):.2f} at the end), "
                f"memory {exponent(sizes, megabytes):.2f} ({exponent(sizes[-2:], megabytes[-2:]):.2f} at the end)\n"
            )


if __name__ == "__main__":
    main()
