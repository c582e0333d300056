"""Times of the debugger against brute force, in one run: ``python -m benchmarks.debugger CALIBRATED.onnx``.

Brute force is a model, a session and a full forward per node and sample. Wall clock and CPU seconds are both printed:
on a machine that others use, the second is the steadier one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray

from engine.debug import get_channelwise_data_distribution, plot_distribution, runall
from engine.debug.analysis.data import read_samples
from engine.debug.analysis.metrics import DistanceMeasure
from engine.debug.analysis.model import DebugModel, NodeType
from engine.debug.analysis.sensitivity import sensitivities
from tests.engine.debug.analysis.test_sensitivity import METRICS, brute_force
from tests.engine.debug.models import random_feed

ROUNDS = 3
"""Ratios are medians of so many rounds: the first one loads libraries."""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="calibrated model")
    parser.add_argument("--data", type=Path, help="folder INPUT/0.npy, ...; default: random numbers")
    parser.add_argument("--samples", type=int, default=2)
    options = parser.parse_args()
    model = DebugModel(options.model)
    if options.data is None:
        feed: Mapping[str, NDArray[Any]] = random_feed(model.model, options.samples)
    else:
        feed = read_samples(model.model, options.data, options.samples)
    names = model.of_kind(NodeType.NODE)
    write(f"{len(names)} nodes, {options.samples} samples, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs\n")
    walls, cpus = [], []
    for _ in range(ROUNDS):
        fast, *quick = timed("sensitivity of all nodes", lambda: sensitivities(model, feed, names, METRICS))
        slow, *long = timed("brute force", lambda: brute_force(model, feed, names, model.outputs))
        walls.append(long[0] / quick[0])
        cpus.append(long[1] / quick[1])
    write(f"brute force takes {median(walls):.1f} times as long, {median(cpus):.1f} times the CPU\n")
    for metric in (DistanceMeasure.COSINE, DistanceMeasure.MSE):
        furthest = max(abs(fast[name][metric] - slow[name][metric]) for name in names)
        write(f"largest difference of {metric}: {furthest:.3g}\n")
    two = list(model.of_kind(NodeType.ACTIVATION)[:2])
    with TemporaryDirectory() as folder:
        timed("plot_distribution, 2 nodes", lambda: plot_distribution(folder, options.model, feed, two))
        timed(
            "get_channelwise_data_distribution, 2 nodes",
            lambda: get_channelwise_data_distribution(folder, options.model, feed, two),
        )
        timed("runall", lambda: runall(options.model, feed, folder))


def timed(title: str, function: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, wall-clock and CPU seconds, which are printed."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    write(f"{title:45}{wall:8.2f} s wall{cpu:8.2f} s CPU\n")
    return result, wall, cpu


def write(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
