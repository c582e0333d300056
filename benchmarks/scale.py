"""What the harness costs around trials that compute nothing, on a Dask cluster of this machine, by number of trials.

``python -m benchmarks.scale 100 1000 10000 [--workers 8] [--no-mlflow]`` runs a sweep of :mod:`benchmarks.synthetic`
for each number and prints: wall time and CPU time of the coordinator by trial, rows that MLflow took per second, CPU
seconds of choice and report, size of the page, peak memory of the coordinator (the scheduler of the trials) and of
Dask's own, load of the machine. Below: how each grows from the least to the greatest number, as the exponent of the
number of trials. A page of more than 5 MB is an error.
"""

from __future__ import annotations

import argparse
import math
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
from harness.sweeps.sweep import run_suite
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


@dataclass(frozen=True)
class Row:
    """What a sweep cost.

    Attributes:
        trials: how many.
        between, whole: milliseconds of wall time per trial, from one's end to the next's and of the whole sweep.
        cpu: CPU milliseconds of the coordinator per trial.
        rows: that MLflow took per second of the whole; 0 without a record.
        choice, drawing: CPU seconds.
        page, coordinator, dask: 10^6 bytes.
        load: of the machine at the end.
    """

    trials: int
    between: float
    whole: float
    cpu: float
    rows: float
    choice: float
    drawing: float
    page: float
    coordinator: float
    dask: float
    load: float

    def text(self) -> str:
        """A row of the table."""
        return (
            f"| {self.trials} | {self.between:.1f} | {self.whole:.1f} | {self.cpu:.1f} | {self.rows:.1f} "
            f"| {self.choice:.2f} | {self.drawing:.1f} | {self.page:.2f} | {self.coordinator:.0f} | {self.dask:.0f} "
            f"| {self.load:.1f} |"
        )


def growth(rows: Sequence[Row]) -> str:
    """By what power of the number of trials each cost of a sweep grows, from the first row to the last."""
    first, last = rows[0], rows[-1]
    totals = {
        "wall time": [row.whole * row.trials for row in (first, last)],
        "coordinator's CPU time": [row.cpu * row.trials for row in (first, last)],
        "choice": [row.choice for row in (first, last)],
        "drawing": [row.drawing for row in (first, last)],
        "page": [row.page for row in (first, last)],
        "coordinator's memory": [row.coordinator for row in (first, last)],
        "Dask's memory": [row.dask for row in (first, last)],
    }
    span = math.log(last.trials / first.trials)
    powers = {name: math.log(b / a) / span for name, (a, b) in totals.items() if a > 0 and b > 0}
    return "growth: " + ", ".join(f"{name} {power:.2f}" for name, power in powers.items())


def measure(trials: int, workers: int, record: bool) -> Row:
    """Run a sweep of so many trials."""
    suite, specs = suite_of(trials)
    clock = Clock()
    with TemporaryDirectory() as folder, cluster(workers) as scheduler:
        bench = Bench(Path(folder))
        executor = executor_factory(f"dask://127.0.0.1:{PORT}")
        plan = Plan(bench=bench, executor=executor, workers=workers, stages="benchmarks.synthetic")
        start, cpu = time.perf_counter(), time.process_time()
        sweep = run_suite(suite, plan, specs=specs, record=record, observers=[clock])
        whole, cpu = time.perf_counter() - start, time.process_time() - cpu
        after = time.process_time()
        choose(sweep.results, bench.store)
        chosen = time.process_time()
        render(sweep, bench.workdir)
        drawn = time.process_time()
        page = (sweep_folder(bench.workdir, suite.name) / REPORT_FILE).stat().st_size / 1e6
        dask = _memory_mb(scheduler.pid)
    if sweep.failed or sweep.record_problem:
        raise RuntimeError(f"{len(sweep.failed)} trials failed; record: {sweep.record_problem}")
    if page > PAGE_LIMIT_MB:
        raise RuntimeError(f"the page has {page:.1f} MB, at most {PAGE_LIMIT_MB} are allowed")
    span = max(clock.last - clock.first, 1e-9) / max(len(specs) - 1, 1)
    return Row(
        trials=len(specs),
        between=1e3 * span,
        whole=1e3 * whole / len(specs),
        cpu=1e3 * cpu / len(specs),
        rows=len(specs) / whole if record else 0.0,
        choice=chosen - after,
        drawing=drawn - chosen,
        page=page,
        coordinator=1.024e-3 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        dask=dask,
        load=os.getloadavg()[0],
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
        "| trials | ms between trials | ms per trial, all | CPU ms | MLflow rows/s | choice CPU s | page CPU s "
        "| page MB | coordinator MB | Dask MB | load |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    rows = []
    for trials in sorted(options.trials):
        rows.append(measure(trials, options.workers, not options.no_mlflow))
        sys.stdout.write(rows[-1].text() + "\n")
        sys.stdout.flush()
    if len(rows) > 1:
        sys.stdout.write(growth(rows) + "\n")


if __name__ == "__main__":
    main()
