"""Fuzz campaign: ``python -m tests.fuzz --minutes 10 onnx``.

Changed files are fed to a reader in a process of limited memory; an audit hook watches which files it touches. A crash,
a hang, an error that is not ours or an access outside the given folder ends the campaign with exit code 1, and the file
that caused it is kept. ``--mutations coverage`` is guided by the code that is reached, with atheris.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.campaign import HANG_SECONDS, Figures, run

SILENT_SECONDS = 6 * HANG_SECONDS
"""A reader that hangs outside of Python is not interrupted from within: how much CPU time it may spend on one file."""


def main() -> int:
    """Run a campaign; the exit code."""
    from tests.fuzz.loaders import LOADERS  # not above: the process of the campaign imports this module before it

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("loader", choices=list(LOADERS))
    parser.add_argument("--minutes", type=float, default=10.0, help="CPU time")
    parser.add_argument("--mutations", choices=("random", "coverage"), default="random")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="folder of more files to begin from")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{arguments.loader}-"))
    child = get_context("spawn").Process(
        target=run,
        args=(arguments.loader, arguments.mutations, arguments.minutes, arguments.seed, arguments.corpus, folder),
    )
    child.start()
    silent = _wait(child, folder / "input")
    report = folder / "figures.json"
    figures = json.loads(report.read_text()) if report.exists() else asdict(Figures(arguments.loader))
    if silent:
        figures["fault"] = f"no result after {SILENT_SECONDS} s"
    if child.exitcode and not figures["fault"]:
        figures["fault"] = f"the reader's process ended with {child.exitcode}"
    if figures["fault"]:
        figures["input"] = str(folder / "input")
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["fault"] else 0


def _wait(child: BaseProcess, current: Path) -> bool:
    """Wait for the end of ``child``; whether it had to be ended because it spent too much on one file."""
    begun, spent = 0, 0.0
    while child.is_alive():
        child.join(1)
        changed = current.stat().st_mtime_ns if current.exists() else 0
        if changed != begun:
            begun, spent = changed, _cpu_seconds(child)
        elif _cpu_seconds(child) - spent > SILENT_SECONDS:
            child.kill()
            child.join()
            return True
    return False


def _cpu_seconds(child: BaseProcess) -> float:
    """CPU time that ``child`` has used; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, proc(5)


if __name__ == "__main__":
    sys.exit(main())
