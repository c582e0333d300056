"""What the harness costs around trials that compute nothing, on a Dask cluster of this machine, by number of trials.

``python -m benchmarks.scale 100 1000 10000 [--workers 8] [--no-mlflow]`` runs a sweep of :mod:`benchmarks.synthetic`
for each number and prints: wall time and CPU time of the coordinator by trial, rows that MLflow took per second,
seconds of choice and report, size of the page, peak memory of the coordinator (the scheduler of the trials) and of
Dask's own. A page of more than 5 MB is an error.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.synthetic import suite_of
from harness.execution.coordinator import Plan, executor_factory
from harness.gates.choice import choose
from harness.report.page import render
from harness.report.results import REPORT_FILE, sweep_folder
from harness.sweep import run_suite
from harness.trials.tasks import Bench, Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec

PORT = 18786
PAGE_LIMIT_MB = 5.0


@dataclass
class Clock:
    """When trials ended."""

    first: float = 0.0
    last: float = 0.0

    def planned(self, specs: Sequence[TrialSpec]) -> None:
        """Nothing yet."""

    def prepared(self, preparation: Preparation, prepared: Prepared) -> None:
        """No trial."""

    def finished(self, result: TrialResult, *, reused: bool) -> None:
        """One trial further."""
        self.last = time.perf_counter()
        self.first = self.first or self.last


@contextmanager
def cluster(workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """A Dask cluster on loopback; its scheduler's process."""
    dask = [sys.executable, "-m", "dask"]
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(PORT), "--no-dashboard"]
    worker = [*dask, "worker", f"tcp://127.0.0.1:{PORT}", "--nworkers", str(workers), "--nthreads", "1"]
    processes = [
        subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in (scheduler, [*worker, "--no-dashboard"])
    ]
    try:
        yield processes[0]
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def measure(trials: int, workers: int, record: bool) -> str:
    """One line of the table."""
    suite, specs = suite_of(trials)
    clock = Clock()
    with TemporaryDirectory() as folder, cluster(workers) as scheduler:
        bench = Bench(Path(folder))
        executor = executor_factory(f"dask://127.0.0.1:{PORT}")
        plan = Plan(bench=bench, executor=executor, workers=workers, stages="benchmarks.synthetic")
        start, cpu = time.perf_counter(), time.process_time()
        sweep = run_suite(suite, plan, specs=specs, record=record, observers=[clock])
        whole, cpu = time.perf_counter() - start, time.process_time() - cpu
        after = time.perf_counter()
        choose(sweep.results, bench.store)
        chosen = time.perf_counter()
        render(sweep, bench.workdir)
        drawn = time.perf_counter()
        page = (sweep_folder(bench.workdir, suite.name) / REPORT_FILE).stat().st_size / 1e6
        dask = _memory_mb(scheduler.pid)
    if sweep.failed or sweep.record_problem:
        raise RuntimeError(f"{len(sweep.failed)} trials failed; record: {sweep.record_problem}")
    if page > PAGE_LIMIT_MB:
        raise RuntimeError(f"the page has {page:.1f} MB, at most {PAGE_LIMIT_MB} are allowed")
    span = max(clock.last - clock.first, 1e-9) / max(len(specs) - 1, 1)
    rows = f"{len(specs) / whole:.1f}" if record else "-"
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return (
        f"| {len(specs)} | {1e3 * span:.1f} | {1e3 * whole / len(specs):.1f} | {1e3 * cpu / len(specs):.1f} | {rows} "
        f"| {chosen - after:.1f} | {drawn - chosen:.1f} | {page:.2f} | {own:.0f} | {dask:.0f} "
        f"| {os.getloadavg()[0]:.1f} |"
    )


def _memory_mb(process: int) -> float:
    """Greatest resident memory of a process, in 10^6 bytes; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((1.024e-3 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0.0)


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="+", type=int)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--no-mlflow", action="store_true")
    options = parser.parse_args()
    sys.stdout.write(
        "| trials | ms between trials | ms per trial, all | CPU ms | MLflow rows/s | choice s | page s | page MB "
        "| coordinator MB | Dask MB | load |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for trials in options.trials:
        sys.stdout.write(measure(trials, options.workers, not options.no_mlflow) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
