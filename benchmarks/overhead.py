"""What a trial costs beside its own work: ``python -m benchmarks.overhead processes dask``.

The trials compute nothing (:mod:`tests.harness.fakes`). Each executor runs a whole sweep, with table, report and MLflow
record unless ``--no-mlflow``; ``dask`` is a cluster of its own on loopback. Times are wall time by trial: of the trials
alone and of all that ``ptqlab run`` does, and CPU time of the coordinator, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from harness.execution.coordinator import Plan, executor_factory
from harness.files.strict_yaml import parse
from harness.suites.suite import Suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult
from tests.harness import fakes

MODELS = 5


class Clock(fakes.Log):
    """When the first and the last trial ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        self.ends.append(time.perf_counter())


def measure(executor: str, trials: int, workers: int, record: bool) -> tuple[float, float, float]:
    """Seconds per trial: between the ends of the first and the last one; of the whole sweep; of the CPU, here."""
    suite = parse({"name": "overhead", "version": 1, "models": "net*", "sweep": {}}, Suite, "overhead")
    settings = [fakes.Settings(max_percentile=1 - number / 1e6) for number in range(-(-trials // MODELS))]
    specs = [fakes.spec(f"net{model}", setting) for model in range(MODELS) for setting in settings][:trials]
    clock = Clock()
    with TemporaryDirectory() as folder, address(executor) as name:
        plan = Plan(
            bench=Bench(Path(folder)), executor=executor_factory(name), workers=workers, stages="tests.harness.fakes"
        )
        start, cpu = time.perf_counter(), time.process_time()
        sweep = run_suite(suite, plan, specs=specs, record=record, observers=[clock])
        whole, cpu = time.perf_counter() - start, time.process_time() - cpu
    if sweep.failed or sweep.record_problem:
        raise RuntimeError(f"{len(sweep.failed)} trials failed; record: {sweep.record_problem}")
    return (clock.ends[-1] - clock.ends[0]) / (trials - 1), whole / trials, cpu / trials


@contextmanager
def address(executor: str) -> Iterator[str]:
    """What ``--executor`` takes; inside, the cluster of ``dask`` runs."""
    if executor != "dask":
        yield executor
        return
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    dask = [sys.executable, "-m", "dask"]
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        [*dask, "worker", f"tcp://127.0.0.1:{port}", "--nworkers", "2", "--nthreads", "1", "--no-dashboard"],
    ]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    try:
        yield f"dask://127.0.0.1:{port}"
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executors", nargs="+", metavar="EXECUTOR", help="serial, processes, dask, or any other")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-mlflow", action="store_true")
    options = parser.parse_args()
    for executor in options.executors:
        load = os.getloadavg()[0]
        trial, whole, cpu = measure(executor, options.trials, options.workers, not options.no_mlflow)
        typer.echo(
            f"{executor}: {1e3 * trial:.1f} ms per trial, {1e3 * whole:.1f} ms with start, record and report, "
            f"of which {1e3 * cpu:.1f} ms CPU in the coordinator ({options.trials} trials, load average {load:.1f})"
        )


if __name__ == "__main__":
    main()
