"""A sweep killed three times with ``kill -9`` and resumed: ``python -m tests.e2e.kill_resume [SUITE]``.

The coordinator runs in a process of its own with stage functions (this module's) that log when each task begins and
ends. What was begun and never ended was in flight at a kill; it is the work that was done again.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from harness.execution import pipeline
from harness.trials.tasks import Bench, Preparation, Prepared
from harness.trials.trial import TrialResult, TrialSpec

ROOT = Path(__file__).resolve().parents[2]
LOG = "tasks.log"
SWEEP = """
import sys
from pathlib import Path
from harness.execution.coordinator import Plan
from harness.suites.suite import open_suite
from harness.sweeps.sweep import run_suite
from harness.trials.tasks import Bench
plan = Plan(bench=Bench(Path(sys.argv[2])), stages="tests.e2e.kill_resume")
if __name__ == "__main__":
    sweep = run_suite(open_suite(sys.argv[1]), plan)
    problems = [f"{result.spec.id}: {result.failure}" for result in sweep.failed]
    sys.exit("\\n".join([*problems, sweep.record_problem or ""]).strip() or None)
"""


def prepare(preparation: Preparation, bench: Bench) -> Prepared:
    """As that of the pipeline, with two lines in the log."""
    _log(bench, "begin", preparation.key)
    prepared = pipeline.prepare(preparation, bench)
    _log(bench, "end", preparation.key)
    return prepared


def run_trial(spec: TrialSpec, statistics: str, bench: Bench) -> TrialResult:
    """As that of the pipeline, with two lines in the log."""
    _log(bench, "begin", spec.key)
    result = pipeline.run_trial(spec, statistics, bench)
    _log(bench, "end", spec.key)
    return result


def _log(bench: Bench, what: str, key: str) -> None:
    with (bench.workdir / LOG).open("a") as file:
        file.write(f"{what} {key} {time.time():.3f}\n")


@dataclass(frozen=True)
class Repeated:
    """What kills cost.

    Attributes:
        tasks: that were begun, trials and preparations, each counted as often as it was begun.
        cut_off: of those, how many never ended.
        seconds: that those had run.
        busy_seconds: that all others took.
    """

    tasks: int
    cut_off: int
    seconds: float
    busy_seconds: float


def repeated(workdir: Path, kills: Sequence[float]) -> Repeated:
    """From the log of a sweep that was killed at these times, in seconds since 1970."""
    begun: dict[str, float] = {}
    cut_off_at: list[float] = []
    tasks, busy = 0, 0.0
    for line in (workdir / LOG).read_text().splitlines():
        what, key, when = line.split()
        if what == "end":
            busy += float(when) - begun.pop(key)
            continue
        tasks += 1
        if key in begun:  # before a kill, and it never ended
            cut_off_at.append(begun[key])
        begun[key] = float(when)
    cut_off_at += begun.values()  # preparations, whose key changes with the trials that are left
    lost = sum(min((kill for kill in kills if kill >= at), default=at) - at for at in cut_off_at)
    return Repeated(tasks, len(cut_off_at), lost, busy)


def start(suite: str, workdir: Path) -> subprocess.Popen[str]:
    """The coordinator of a sweep as a process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SWEEP, suite, str(workdir)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    """Let a sweep end by itself."""
    output, _ = process.communicate(timeout=7200)
    if process.returncode:
        raise RuntimeError(output)


def kill_when(process: subprocess.Popen[str], workdir: Path, finished: int) -> float:
    """Kill a sweep once so many trials are finished; when it was."""
    while len(written(workdir)) < finished:
        if process.poll() is not None:
            raise RuntimeError(f"the sweep ended before it was killed: {process.communicate()[0]}")
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    killed = time.time()
    process.communicate()
    time.sleep(0.5)  # its children notice
    return killed


def written(workdir: Path) -> dict[str, int]:
    """When each result was written, by key."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (workdir / "trials").glob("[!.]*/result.json")}


def results(workdir: Path) -> dict[str, TrialResult]:
    """Finished trials by id, without what a clock says."""
    found = {}
    for path in (workdir / "trials").glob("[!.]*/result.json"):
        result = TrialResult.model_validate_json(path.read_text())
        found[result.spec.id] = result.model_copy(update={"seconds": {}, "finished_at": "", "peak_memory_mb": None})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", default="smoke", help="name or file")
    parser.add_argument("--kills", default="0.1,0.4,0.7", help="shares of the trials after which the sweep is killed")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        undisturbed, disturbed = Path(folder) / "undisturbed", Path(folder) / "disturbed"
        begun = time.monotonic()
        finish(start(options.suite, undisturbed))
        alone = time.monotonic() - begun
        expected = results(undisturbed)
        begun = time.monotonic()
        shares = [float(share) for share in options.kills.split(",")]
        kills = [
            kill_when(start(options.suite, disturbed), disturbed, max(1, int(share * len(expected))))
            for share in shares
        ]
        finish(start(options.suite, disturbed))
        seconds = time.monotonic() - begun
        same = results(disturbed) == expected
        cost = repeated(disturbed, kills)
    typer.echo(
        f"{options.suite}: {len(expected)} trials, killed {len(kills)} times; results "
        f"{'identical' if same else 'DIFFER'}; {cost.cut_off} of {cost.tasks} tasks begun were cut off and repeated, "
        f"{cost.seconds:.1f} s of work beside {cost.busy_seconds:.1f} s; "
        f"wall time {seconds:.1f} s against {alone:.1f} s undisturbed"
    )
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
