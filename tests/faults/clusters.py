"""Sweeps on a Dask cluster that misbehaves: ``python -m tests.faults.clusters [FAULT …] --trials 8``.

A scheduler and two workers run as processes. While a sweep runs, a worker is killed, the scheduler is killed and
started again with its workers, or all stand still for a minute, as they do for the sweep when the network is gone.
A sweep that lost the cluster is started again, as its user would. Exit code 1: a figure differs from what it must be,
or a trial has no result or two.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.errors import ConfigError
from harness.execution.coordinator import Plan, executor_factory, run_sweep
from harness.suites.settings import Settings
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult, TrialSpec
from tests.e2e.postgres import free_port
from tests.faults.setting import ROOT
from tests.harness import fakes

Processes = dict[str, subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, Processes, Callable[[str], None]]]:
    """Address of a scheduler with two workers, their processes by name, and what starts one of these."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    running: Processes = {}

    def begin(name: str) -> None:
        kind = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        if name != "scheduler":
            kind = ["worker", address, "--nthreads", "1", "--name", name, "--no-dashboard"]
            kind += ["--local-directory", str(folder / name)]
        running[name] = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + kind[0], *kind[1:]],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    try:
        for name in ("scheduler", "first", "second"):
            begin(name)
        yield address, running, begin
    finally:
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tell(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to a process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def worker_killed(running: Processes, begin: Callable[[str], None]) -> None:
    """One of two."""
    del begin
    tell(running["first"], signal.SIGKILL)


def scheduler_restarted(running: Processes, begin: Callable[[str], None]) -> None:
    """Its workers end where it does, and are started again too."""
    for name in list(running):
        tell(running[name], signal.SIGKILL)
        running[name].wait()
        begin(name)


def network_gone(running: Processes, begin: Callable[[str], None], seconds: float = 60.0) -> None:
    """Nobody on the cluster answers for so long."""
    del begin
    for process in running.values():
        tell(process, signal.SIGSTOP)
    time.sleep(seconds)
    for process in running.values():
        tell(process, signal.SIGCONT)


FAULTS = {"worker killed": worker_killed, "scheduler restarted": scheduler_restarted, "network gone": network_gone}


def figures(results: Sequence[TrialResult]) -> list[object]:
    """What must not differ."""
    return [(each.spec.id, each.failure, each.metrics()) for each in results]


def tried(fault: str, folder: Path, specs: Sequence[TrialSpec], after: float) -> list[str]:
    """What is wrong with a sweep that meets ``fault`` after so many seconds."""
    with cluster(folder) as (address, running, begin):
        bench, executor = Bench(folder / "work"), executor_factory(f"dask://{address}")
        plan = Plan(bench, executor=executor, stages="tests.harness.fakes")
        timer = threading.Timer(after, FAULTS[fault], (running, begin))
        timer.start()
        wrong = []
        for _ in range(3):  # as a user who is told that the cluster was lost
            try:
                results = run_sweep(specs, plan)
            except ConfigError as error:
                sys.stdout.write(f"  told: {error}\n")
                continue
            if all(each.ok for each in results) and len(results) == len(specs):
                break
            messages = sorted({each.failure.message for each in results if each.failure})
            sys.stdout.write(f"  told: {messages}\n")
        else:
            wrong.append("the sweep does not come to its end")
        timer.join()
        expected = [fakes.result(spec) for spec in specs]
        kept = [result for spec in specs if (result := plan.bench.store.get(spec)) is not None]
        if figures(kept) != figures(expected):
            wrong.append("figures differ, or a trial is missing")
        if len({each.spec.key for each in kept}) != len(specs):
            wrong.append("a trial is there twice")
        done = fakes.notes(folder / "work")
        again = [spec.id for spec in specs if done.count(f"run {spec.id}") > 1]
        sys.stdout.write(f"  {len(again)} of {len(specs)} trials were begun again\n")
        return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a sweep under every fault; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.clusters", description=__doc__)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, []], default=[])
    parser.add_argument("--trials", type=int, default=8, help="of 1.5 s each")
    parser.add_argument("--after", type=float, default=4.0, help="seconds")
    chosen = parser.parse_args(arguments)
    specs, bad = [fakes.spec("slow", Settings(calibration_seed=index)) for index in range(chosen.trials)], 0
    for fault in chosen.faults or FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            wrong = tried(fault, Path(folder), specs, chosen.after)
            sys.stdout.write(f"{fault}: {time.monotonic() - begun:.1f} s\n")
            sys.stdout.write("".join(f"  FAULT {each}\n" for each in wrong))
            sys.stdout.flush()
            bad += bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
