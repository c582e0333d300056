"""Commands killed at random moments: ``python -m tests.faults.kills [COMMAND …] --kills 40 --seed 1``.

A command is started, killed with SIGKILL after a random time, and started again, eight times in a row; then it runs
to its end. Exit code 1: what a kill left is not whole, processes that it started live on, the rerun's files (and the
record in MLflow) differ from an undisturbed run's and from those of a second one behind it, a command prints a
traceback because another was killed, or temporary files are left after ``ptqlab gc``.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.setting import Whole, hidden, left_running, prepare, recorded, results, run, start

IN_A_ROW = 8
"""Kills before a command runs to its end."""


def unrecorded(folder: Path) -> None:
    """A folder with a sweep that MLflow has not got: its store was no database at the time."""
    work = folder / "work"
    work.mkdir()
    (work / "mlflow.db").write_bytes(b"no database")
    run("run", folder)
    (work / "mlflow.db").unlink()


CASES: dict[str, Callable[[Path], object]] = {
    "makertbin": lambda folder: None,
    "tune": lambda folder: None,
    "run": lambda folder: None,
    "nightly": lambda folder: None,
    "sync": unrecorded,
}
"""Commands that are killed, and what is to be there before."""


@dataclass
class Campaign:
    """Kills of one command.

    Attributes:
        command: that is killed.
        folder: that it works in; the same throughout, as files tell paths.
        faults: found so far.
        in_time: kills that struck while the command ran.
    """

    command: str
    folder: Path
    faults: list[str] = field(default_factory=list)
    in_time: int = 0
    _whole: Whole = field(default_factory=lambda: Whole(()))
    _records: tuple[object, ...] = ()
    _seconds: float = 0.0
    _ready: Path = Path()

    def undisturbed(self) -> None:
        """Keep what the command gives if nobody kills it, and how long it takes."""
        prepare(self.folder)
        CASES[self.command](self.folder)
        self._ready = self.folder.with_name("ready")
        shutil.copytree(self.folder, self._ready)
        self._finish("undisturbed")  # once for the caches of compiled code
        self._again()
        begun = time.monotonic()
        self._finish("undisturbed")
        self._seconds = time.monotonic() - begun
        first, record = results(self.folder), recorded(self.folder)[-1:]
        self._finish("undisturbed, once more")
        self._whole = Whole((first, results(self.folder)))
        self._records = (record, recorded(self.folder)[-1:])

    def round(self, kills: int, rng: random.Random) -> None:
        """Kill so many times in a row, then let it finish and compare."""
        self._again()
        for kill in range(kills):
            moment = rng.uniform(0.0, 1.0) * self._seconds
            self._kill(moment, f"kill {kill + 1} after {moment:.2f} s")
        self._finish("rerun")
        self.faults += [f"the rerun's: {name} is not whole" for name in self._whole.differing(results(self.folder))]
        if recorded(self.folder)[-1:] not in self._records:
            self.faults.append(f"the rerun's record is {recorded(self.folder)[-1:]}, expected {self._records[0]}")
        if any(each["status"] == "RUNNING" for each in recorded(self.folder)):
            self.faults.append("a run is open in MLflow for ever")
        self._clean()

    def _again(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._ready, self.folder)

    def _finish(self, what: str) -> None:
        code, output = run(self.command, self.folder)
        if code or "Traceback" in output:
            self.faults.append(f"{what}: exit code {code}: {output[-1500:]}")

    def _kill(self, after: float, what: str) -> None:
        process = start(self.command, self.folder)
        time.sleep(after)
        self.in_time += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        if running := left_running(self.folder):
            self.faults.append(f"{what}: these live on: {running}")
        output, _ = process.communicate()
        if "Traceback" in output:
            self.faults.append(f"{what}: a traceback: {output[-1500:]}")
        self.faults += [f"{what}: {name} is not whole" for name in self._whole.damaged(results(self.folder))]

    def _clean(self) -> None:
        """All that is there becomes two days old, and is collected."""
        old = time.time() - 2 * 86_400
        for path in self.folder.rglob("*"):
            os.utime(path, (old, old), follow_symlinks=False)
        for command in ("gc", "gc of a conversion"):
            code, output = run(command, self.folder)
            if code:
                self.faults.append(f"ptqlab gc: {output}")
        if names := hidden(self.folder):
            self.faults.append(f"left after ptqlab gc: {names}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill and run again; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("commands", nargs="*", choices=[*CASES, []], default=[])
    parser.add_argument("--kills", type=int, default=40, help="of each command")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    worst = 0
    for command in chosen.commands or CASES:
        rng = random.Random(f"{chosen.seed} {command}")
        with tempfile.TemporaryDirectory() as root:
            campaign = Campaign(command, Path(root) / "place")
            campaign.undisturbed()
            for done in range(0, chosen.kills, IN_A_ROW):
                campaign.round(min(IN_A_ROW, chosen.kills - done), rng)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        sys.stdout.write("".join(f"{command}: {fault}\n" for fault in campaign.faults))
        sys.stdout.write(
            f"{command}: {chosen.kills} kills, {campaign.in_time} of them in time, {len(campaign.faults)} faults, "
            f"{(used.ru_utime + used.ru_stime) / 60:.1f} CPU minutes so far\n"
        )
        sys.stdout.flush()
        worst |= bool(campaign.faults)
    return worst


if __name__ == "__main__":
    sys.exit(main())
