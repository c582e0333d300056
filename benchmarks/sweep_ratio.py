"""What a sweep costs against its configurations one by one: ``python -m benchmarks.sweep_ratio efficientnet_lite0``.

The sweep and single configurations of it run in fresh working directories, with reports, without MLflow. Configurations
run alone with all CPU threads, as ``ptqlab run --workers 1`` does; the ratio is wall time of the sweep to that of all
its trials at the mean of those that were measured alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import typer

from engine.simulate.fast import available_cpus
from harness.execution.coordinator import Plan
from harness.suites.suite import Suite, open_suite
from harness.sweeps.planning import plan_trials
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
from harness.trials.trial import TrialSpec


def wall_time(suite: Suite, specs: Sequence[TrialSpec], workers: int) -> float:
    """Seconds that ``specs`` take with nothing computed before."""
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), threads=max(1, available_cpus() // workers))
        begun = time.perf_counter()
        sweep = run_suite(suite, Plan(bench=bench, workers=workers), specs=specs, record=False)
        seconds = time.perf_counter() - begun
    if sweep.failed:
        raise RuntimeError(f"{sweep.failed[0].spec.id}: {sweep.failed[0].failure}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="name or file, of one model")
    parser.add_argument("--alone", type=int, default=3, help="configurations to run alone, spread over the suite")
    options = parser.parse_args()
    suite = open_suite(options.suite)
    specs = plan_trials(suite)
    step = max(1, len(specs) // options.alone)
    load = os.getloadavg()[0]
    singles = {spec.id: wall_time(suite, [spec], 1) for spec in specs[::step][: options.alone]}
    whole = wall_time(suite, specs, available_cpus())
    for name, seconds in singles.items():
        typer.echo(f"{name} alone: {seconds:.1f} s")
    typer.echo(
        f"{suite.name}: {len(specs)} trials in {whole:.1f} s, {whole / (len(specs) * mean(singles.values())):.2f} of "
        f"{len(specs)} x {mean(singles.values()):.1f} s ({available_cpus()} CPUs, load average {load:.1f})"
    )


if __name__ == "__main__":
    main()
